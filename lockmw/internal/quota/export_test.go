package quota

const MostCallers = mostCallers

// Callers is how many have something.
func (e *Each) Callers() int { return len(e.has) }

// Callers is how many are kept in mind.
func (b *Budget) Callers() int { return len(b.callers) }
