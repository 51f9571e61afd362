package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// turns is a request to take and free locks.
type turns struct {
	Name       string // of the lock
	Own        bool   // whether each goroutine has one of its own
	Slots      []int  // of a limit, if it is no lock, or of several of one call
	Shared     bool   // whether that limit is one for all, and so wide that nobody waits
	Goroutines int
	Span       time.Duration // for how long; 0: each goroutine takes the lock once
	Work       time.Duration // under the lock
}

// taken is how that went in one process, or in several.
type taken struct {
	Counts   []int           // by goroutine
	Times    []time.Duration // of each cycle, where each goroutine has a lock of its own
	Longest  time.Duration   // wait for a lock
	Took     time.Duration
	CPU      time.Duration // of the processes, user and system
	Allocs   uint64        // of the processes
	Overlaps int           // entries while as many goroutines of the process as may were inside
}

func (t *taken) add(o taken) {
	t.Counts = append(t.Counts, o.Counts...)
	t.Times = append(t.Times, o.Times...)
	t.Longest, t.Took = max(t.Longest, o.Longest), max(t.Took, o.Took)
	t.CPU += o.CPU
	t.Allocs += o.Allocs
	t.Overlaps += o.Overlaps
}

func (t *taken) total() (sum int) {
	for _, n := range t.Counts {
		sum += n
	}
	return sum
}

// without is how many goroutines had no turn.
func (t *taken) without() (n int) {
	for _, count := range t.Counts {
		if count == 0 {
			n++
		}
	}
	return n
}

// each is a time in µs, a turn.
func (t *taken) each(d time.Duration) float64 { return micros(d) / float64(max(t.total(), 1)) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mean(times []time.Duration) (sum time.Duration) {
	for _, one := range times {
		sum += one
	}
	return sum / time.Duration(max(len(times), 1))
}

// jain is Jain's index of fairness: 1 when all got as much, 1/n when one got
// everything; 0 if there was no turn. Source: R. Jain, D. Chiu, W. Hawe,
// DEC-TR-301, 1984.
func jain(counts []int) float64 {
	var sum, squares float64
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// newTurns is a child that takes and frees locks of one library.
func newTurns(s setup) (handle, error) {
	lib, err := connect(s.Who, s.Addr)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*taker) // kept, so that no slice pays for what it allocates
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var t turns
		if err := json.Unmarshal(request, &t); err != nil {
			return nil, err
		}
		takers := make([]*taker, t.Goroutines)
		for i := range takers {
			name := t.Name
			if t.Own && !t.Shared {
				name += ":" + strconv.Itoa(i)
			}
			id := name + "#" + strconv.Itoa(i)
			if all[id] == nil {
				all[id] = &taker{mutex: t.mutex(lib, name, id)}
			}
			takers[i] = all[id]
		}
		return t.run(ctx, takers)
	}, nil
}

func (t turns) mutex(lib library, name, id string) mutex {
	if t.Slots == nil {
		return lib.mutex(name)
	}
	return lib.limit(name, id, t.Slots)
}

// most is how many may have it at once.
func (t turns) most() int {
	if t.Slots == nil {
		return 1
	}
	return slices.Min(t.Slots)
}

// taker is one goroutine's turns.
type taker struct {
	mutex   mutex
	count   int
	times   []time.Duration
	longest time.Duration
	err     error
}

func (t turns) run(ctx context.Context, takers []*taker) (sum taken, err error) {
	waiting := ctx
	// Nothing can cancel the context of a lone caller: rueidis pipelines for
	// any other without a deadline, which is slower.
	if !t.Own && t.Span > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeout(ctx, t.Span)
		defer stop()
	}
	var over atomic.Bool
	var inside, overlaps atomic.Int32
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, begun := cpuTime(), time.Now()
	if t.Span > 0 {
		defer time.AfterFunc(t.Span, func() { over.Store(true) }).Stop()
	}
	var wg sync.WaitGroup
	for _, one := range takers {
		wg.Go(func() { one.run(waiting, ctx, t, &over, &inside, &overlaps) })
	}
	wg.Wait()
	sum = taken{Took: time.Since(begun), CPU: cpuTime() - used, Overlaps: int(overlaps.Load())}
	runtime.ReadMemStats(&after)
	sum.Allocs = after.Mallocs - before.Mallocs
	for _, one := range takers {
		if one.err != nil {
			return sum, one.err
		}
		sum.Counts = append(sum.Counts, one.count)
		sum.Longest = max(sum.Longest, one.longest)
		if t.Own {
			sum.Times = append(sum.Times, one.times...)
		}
	}
	return sum, nil
}

// run ends when time is over, which a failure makes it for all.
func (one *taker) run(
	waiting, freeing context.Context, t turns, over *atomic.Bool, inside, overlaps *atomic.Int32,
) {
	one.count, one.times, one.longest, one.err = 0, one.times[:0], 0, nil
	for done := false; !done && !over.Load(); done = t.Span == 0 {
		begun := time.Now()
		err := one.mutex.lock(waiting)
		one.longest = max(one.longest, time.Since(begun))
		if err != nil {
			if waiting.Err() == nil {
				one.err = fmt.Errorf("lock: %w", err)
				over.Store(true)
			}
			return
		}
		if !t.Own && int(inside.Add(1)) > t.most() {
			overlaps.Add(1)
		}
		if t.Work > 0 {
			time.Sleep(t.Work)
		}
		if !t.Own {
			inside.Add(-1)
		}
		if err := one.mutex.unlock(freeing); err != nil {
			one.err = fmt.Errorf("unlock: %w", err)
			over.Store(true)
			return
		}
		one.count++
		if t.Own {
			one.times = append(one.times, time.Since(begun))
		}
	}
}

// together lets all children take turns, and says what that took of the server.
func (t turns) together(c crew, s server) (sum taken, use usage, err error) {
	before, err := s.usage()
	if err != nil {
		return sum, use, err
	}
	all, err := askAll[taken](c, t)
	if err != nil {
		return sum, use, err
	}
	for _, one := range all {
		sum.add(one)
	}
	slices.Sort(sum.Times)
	after, err := s.usage()
	return sum, after.since(before), err
}
