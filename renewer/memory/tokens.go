package memory

// tokens are the fencing tokens granted: of those that the store picked, the
// highest is the floor of all names; of those that were proposed there is a
// counter for each name, since the proposers of different names know nothing of
// each other. The counters of names that are free are forgotten from time to
// time. Then the highest of them is the floor of all.
type tokens struct {
	counters map[string]int64
	floor    int64 // no counter is lower
	sweepAt  int
}

// counter is what a token for name must exceed.
func (t *tokens) counter(name string) int64 { return max(t.floor, t.counters[name]) }

// note sets the counter of name, whose lease is about to be stored.
func (t *tokens) note(name string, fence int64, held func(string) bool) {
	if t.counters == nil {
		t.counters = make(map[string]int64)
	}
	sweep(t.counters, &t.sweepAt, func(old string, counter int64) bool {
		if held(old) {
			return false
		}
		t.floor = max(t.floor, counter)
		return true
	})
	t.counters[name] = fence
}
