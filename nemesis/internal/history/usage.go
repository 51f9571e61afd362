package history

import (
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
func usage(processes []*Process) (u Usage, found []Violation) {
	var all []Event
	for _, p := range processes {
		all = append(all, p.figures...)
		if last := len(p.figures) - 1; last >= 0 && p.killed == Never {
			u.Idle += p.figures[last].Idle
		}
	}
	if len(all) == 0 {
		return u, nil
	}
	at := func(a, b Event) int { return int(min(1, max(-1, a.At-b.At))) }
	first, last := slices.MinFunc(all, at).At, slices.MaxFunc(all, at).At
	during := func(from, to int64) (goroutines int, heap int64) {
		var g []int
		var h []int64
		for _, e := range all {
			if share := (e.At - first) * 5; share >= from*(last-first) && share <= to*(last-first) {
				g, h = append(g, e.Goroutines), append(h, e.Heap)
			}
		}
		return median(g), median(h)
	}
	u.Goroutines, u.Heap = during(1, 2)
	u.LateGoroutines, u.LateHeap = during(4, 5)
	if time.Duration(last-first) < soak {
		return u, nil
	}
	if float64(u.LateGoroutines) > mostGrowth*float64(u.Goroutines)+someGoroutines {
		found = append(found, violation("flat", "goroutines of a process have grown from %d to %d",
			u.Goroutines, u.LateGoroutines))
	}
	if float64(u.LateHeap) > mostGrowth*float64(u.Heap)+someHeap {
		found = append(found, violation("flat",
			"the heap of a process has grown from %d to %d bytes", u.Heap, u.LateHeap))
	}
	return u, found
}

func median[T int | int64](all []T) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
