package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// contended is how the goroutines of one process did on one key.
type contended struct {
	Counts   []int         // hand-offs to each goroutine
	Longest  time.Duration // the longest wait, of those who wait when time is up too
	Overlaps int           // entries while another goroutine of the process was inside
	Failed   int
	Err      string // the last failure
	Hung     int    // goroutines that did not come back
	Grants   []grant
}

// grant is one hand-off: when it was asked for and had, in ns since 1970.
type grant struct{ Asked, Got int64 }

// contend lets goroutines take one key over and over. A lone
// goroutine notes each grant too, for the order among processes.
func contend(
	ctx context.Context, c *contender, name string, goroutines int, span time.Duration,
) contended {
	waiting, stop := context.WithTimeout(ctx, span)
	defer stop()
	freeing, abandon := context.WithTimeout(ctx, span+endWithin)
	defer abandon()
	var inside atomic.Int32
	results := make(chan contended, goroutines)
	for range goroutines {
		go func() {
			one := contended{Counts: []int{0}}
			for m := c.mutex(name); waiting.Err() == nil; {
				one.enter(waiting, freeing, m, &inside, goroutines == 1)
			}
			results <- one
		}()
	}
	sum := contended{Hung: goroutines}
	late := time.NewTimer(span + 2*endWithin)
	defer late.Stop()
	for sum.Hung > 0 {
		select {
		case one := <-results:
			sum.add(one)
			sum.Hung--
		case <-late.C:
			return sum
		}
	}
	return sum
}

// enter takes the lock once. A failure is no reason to give up, but
// to wait a little: not all libraries fail slowly.
func (r *contended) enter(
	waiting, freeing context.Context, m mutex, inside *atomic.Int32, note bool,
) {
	asked := time.Now()
	_, err := m.lock(waiting)
	had := time.Now()
	r.Longest = max(r.Longest, had.Sub(asked))
	if err != nil {
		if waiting.Err() == nil {
			r.fail(err)
			time.Sleep(10 * time.Millisecond)
		}
		return
	}
	if inside.Add(1) != 1 {
		r.Overlaps++
	}
	r.Counts[0]++
	if note {
		r.Grants = append(r.Grants, grant{asked.UnixNano(), had.UnixNano()})
	}
	inside.Add(-1)
	if err := m.unlock(freeing); err != nil {
		r.fail(err)
	}
}

func (r *contended) fail(err error) {
	r.Failed++
	r.Err = err.Error()
}

// add takes in the result of another goroutine or process.
func (r *contended) add(o contended) {
	r.Counts = append(r.Counts, o.Counts...)
	r.Longest = max(r.Longest, o.Longest)
	r.Overlaps += o.Overlaps
	r.Failed += o.Failed
	r.Hung += o.Hung
	r.Grants = append(r.Grants, o.Grants...)
	if o.Err != "" {
		r.Err = o.Err
	}
}

func (r *contended) total() (sum int) {
	for _, n := range r.Counts {
		sum += n
	}
	return sum
}

// jain is Jain's index of fairness: 1 when all got as much, 1/n when one got everything;
// 0 if there was no grant. Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
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

// inverted is the share of the grants that overtook a caller who had
// asked earlier, by more than slack, and still waited.
func inverted(grants []grant, slack time.Duration) float64 {
	if len(grants) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(grants), func(a, b grant) int {
		return int(a.Got - b.Got)
	})
	overtook, earliest := 0, sorted[len(sorted)-1].Asked
	for _, g := range slices.Backward(sorted) {
		if earliest < g.Asked-int64(slack) {
			overtook++
		}
		earliest = min(earliest, g.Asked)
	}
	return float64(overtook) / float64(len(grants))
}

// together starts what blocks for each process at once, and returns the first error.
func together(n int, do func(i int) error) error {
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(i); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	return first
}
