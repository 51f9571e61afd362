package history

import (
	"cmp"
	"slices"
	"time"
)

// Usage is what a process uses, early in a run and late: the medians over all processes.
type Usage struct {
	Goroutines, LateGoroutines int
	Heap, LateHeap             int64 // bytes
	// Idle is how many leases were held besides at the end, by all together.
	Idle int
}

const (
	// soak is how long a run must be for its usage to be judged: what
	// a process takes at its start is over by then.
	soak = 5 * time.Minute
	// mostGrowth is what may come between two medians of a quantity that does not grow.
	mostGrowth     = 1.3
	someGoroutines = 50
	someHeap       = 8 << 20
)

// usage compares the second fifth of the time with the last.
func (r *Report) usage(run Run) {
	u := &r.Usage
	var all []Event
	for _, p := range run.Processes {
		all = append(all, p.figures...)
		if last := len(p.figures) - 1; last >= 0 && p.killed == Never {
			u.Idle += p.figures[last].Idle
		}
	}
	if u.Idle < run.Idle {
		r.found("progress", "of %d idle leases only %d were held at the end", run.Idle, u.Idle)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	first, span := all[0].At, all[len(all)-1].At-all[0].At
	fifth := func(n int64) (goroutines int, heap int64) { // the nth
		var g []int
		var h []int64
		for _, e := range all {
			if share := (e.At - first) * 5; share >= (n-1)*span && share <= n*span {
				g, h = append(g, e.Goroutines), append(h, e.Heap)
			}
		}
		if len(g) == 0 {
			return 0, 0
		}
		slices.Sort(g)
		slices.Sort(h)
		return g[len(g)/2], h[len(h)/2]
	}
	u.Goroutines, u.Heap = fifth(2)
	u.LateGoroutines, u.LateHeap = fifth(5)
	flat := func(what string, early, late, some int64) {
		if float64(late) > mostGrowth*float64(early)+float64(some) {
			r.found("flat", "the %s of a process have grown from %d to %d", what, early, late)
		}
	}
	if time.Duration(span) >= soak {
		flat("goroutines", int64(u.Goroutines), int64(u.LateGoroutines), someGoroutines)
		flat("bytes of the heap", u.Heap, u.LateHeap, someHeap)
	}
}
