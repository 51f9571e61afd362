package desk

type opening uint8

const (
	forAll opening = iota
	forNested
	forNone
)

// Out counts a caller out, and reports whether the desk is not open to all, and
// nobody is inside any more.
func (d *Desk[L]) Out() (empty bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	return d.open > forAll && d.inside == 0
}

// Drain refuses newcomers, but for nested ones.
func (d *Desk[L]) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = max(d.open, forNested)
}

// Close refuses all newcomers.
func (d *Desk[L]) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = forNone
}

// CloseIfEmpty is Close if nobody is inside, and reports whether that is so.
func (d *Desk[L]) CloseIfEmpty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside > 0 {
		return false
	}
	d.open = forNone
	return true
}

// Inside returns how many callers are counted in.
func (d *Desk[L]) Inside() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inside
}
