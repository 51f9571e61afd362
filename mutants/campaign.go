package main

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// campaign plants faults in their order until enough of them counted.
type campaign struct {
	suite  *suite
	out    io.Writer
	wanted int

	mu       sync.Mutex
	changed  *sync.Cond
	queue    []fault
	underway int
	counted  int
	verdicts []verdict
	err      error
}

func newCampaign(s *suite, out io.Writer, queue []fault, wanted int) *campaign {
	c := &campaign{suite: s, out: out, queue: queue, wanted: wanted}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// next returns the next fault, and waits while those under way may be enough: however many workers
// there are, the faults that count are the first ones of the queue that compile.
func (c *campaign) next() (fault, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.counted < c.wanted && c.counted+c.underway >= c.wanted {
		c.changed.Wait()
	}
	if c.err != nil || c.counted >= c.wanted || len(c.queue) == 0 {
		return fault{}, false
	}
	f := c.queue[0]
	c.queue = c.queue[1:]
	c.underway++
	return f, true
}

func (c *campaign) done(v verdict, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	c.underway--
	if err != nil {
		if c.err == nil { // those that follow are only more of it
			c.err = err
		}
		return
	}
	c.verdicts = append(c.verdicts, v)
	if !v.invalid {
		c.counted++
		_, _ = fmt.Fprintf(c.out, "%3d/%d %s", c.counted, c.wanted, v)
	}
}

// run has one worker for each tree.
func (c *campaign) run(ctx context.Context, trees []tree) ([]verdict, error) {
	var workers sync.WaitGroup
	for _, t := range trees {
		workers.Go(func() {
			for f, ok := c.next(); ok; f, ok = c.next() {
				c.done(c.suite.hunt(ctx, t, f))
			}
		})
	}
	workers.Wait()
	return c.verdicts, c.err
}
