package memory

// proposals remembers the tokens that were granted as they were proposed, with a counter for each
// name: the proposers of different names know nothing of each other, so names must not disturb each
// other. The counters of names that are free are forgotten from time to time. Then the highest of
// them is the floor of all.
type proposals struct {
	counters map[string]int64
	floor    int64 // no counter is lower
	sweepAt  int
}

// counter is what a token for name must exceed.
func (p *proposals) counter(name string) int64 { return max(p.floor, p.counters[name]) }

// note sets the counter of name, whose lease is about to be stored.
func (p *proposals) note(name string, fence int64, held func(string) bool) {
	if p.counters == nil {
		p.counters = make(map[string]int64)
	}
	if len(p.counters) >= max(p.sweepAt, minSweep) {
		for old, counter := range p.counters {
			if !held(old) {
				p.floor = max(p.floor, counter)
				delete(p.counters, old)
			}
		}
		p.sweepAt = 2 * len(p.counters)
	}
	p.counters[name] = fence
}

// giveBack lowers the counter of name, if it has one, to what its owner has used.
func (p *proposals) giveBack(name string, used int64) {
	if counter, ok := p.counters[name]; ok {
		p.counters[name] = min(counter, used)
	}
}
