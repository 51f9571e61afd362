package wire

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// GroupMost bounds for how many questions callers share a command: more would
// save little, and the script takes about 0.2 ms by then.
const GroupMost = 64

// groupFrom is from how many callers under way on they share commands. Sharing
// saves the server work, and costs callers time. Fewer callers than this get up
// to 1.6 times as many turns if each asks at once and alone; the server spends
// as much time on that as on shared commands if claims are native, and a
// seventh more if not.
const groupFrom = 16

// Coalescer joins the questions of callers who meet, so that they travel in one
// command: the server answers it at a third of the cost of one each. No caller
// is kept waiting for company: one that finds few under way asks alone, at
// once. Otherwise the first to come yields the processor once, and takes along
// the callers who have joined by then.
//
// Each caller gets the answers to its own questions, of which it may have
// several. If a group's command was of no use, each of its callers asks alone,
// so that none spoils another's question.
type Coalescer[Q, A any] struct {
	// Alike reports whether two questions can share a command.
	Alike func(a, b *Q) bool
	// Alone asks the questions of one caller.
	Alone func(ctx context.Context, questions []Q) []A
	// Together asks several once. It returns nil if they are to be asked again,
	// each alone.
	Together func(ctx context.Context, questions []Q) []A
	// Unknown is the answer to one whose context ended first.
	Unknown func(error) A
	// Owner is whose question it is, for Settle; nil where that is not called.
	Owner func(question *Q) string

	mu        sync.Mutex
	busy      int // callers whose questions are under way
	group     *group[Q, A]
	abandoned map[string][]*group[Q, A] // by owner: under way without the caller, who has left
	some      atomic.Bool               // whether there are any, so that Settle takes no mutex
}

// group is a question that several callers ask together. Its fields are guarded
// by Coalescer.mu; answers may be read once done is closed, and is nil if each
// is to ask alone.
type group[Q, A any] struct {
	questions []Q
	callers   int
	left      []int // indexes of those whose callers do not wait any longer
	ctx       context.Context
	cancel    context.CancelFunc
	over      bool // it has been asked, and done is about to be closed
	done      chan struct{}
	answers   []A
}

// Joins reports whether the questions of one caller may go to Do.
func (c *Coalescer[Q, A]) Joins(questions []Q) bool {
	for i := range questions {
		if !c.Alike(&questions[0], &questions[i]) {
			return false
		}
	}
	return len(questions) > 0 && len(questions) <= GroupMost
}

// Do asks the questions of one caller once the window has room, in a group or
// alone.
func (c *Coalescer[Q, A]) Do(ctx context.Context, w *Window, questions []Q) []A {
	n := len(questions)
	if err := w.enter(ctx, n); err != nil {
		return c.unknown(err, n)
	}
	defer w.leave(n)
	c.mu.Lock()
	g, first, i := c.group, false, 0
	switch {
	case g != nil && c.Alike(&g.questions[0], &questions[0]) && len(g.questions)+n <= GroupMost:
		i = c.enter(g, questions)
	case g != nil || c.busy < groupFrom:
		g = nil
	default:
		g, first = &group[Q, A]{done: make(chan struct{}), questions: make([]Q, 0, 8)}, true
		c.group = g
		c.enter(g, questions)
	}
	c.mu.Unlock()
	if first && !c.assemble(g, n) {
		g = nil
	}
	if g != nil {
		select {
		case <-g.done:
		case <-ctx.Done():
			if c.leave(g, i, n) {
				return c.unknown(ctx.Err(), n)
			}
			<-g.done // at the same moment
		}
		if g.answers != nil {
			return g.answers[i : i+n : i+n]
		}
	}
	return c.ask(ctx, questions)
}

func (c *Coalescer[Q, A]) unknown(err error, n int) []A {
	return slices.Repeat([]A{c.Unknown(err)}, n)
}

// enter adds questions to a group, and takes no more if that is full. Under
// c.mu.
func (c *Coalescer[Q, A]) enter(g *group[Q, A], questions []Q) (from int) {
	from = len(g.questions)
	g.callers++
	g.questions = append(g.questions, questions...)
	if len(g.questions) == GroupMost {
		c.group = nil
	}
	return from
}

// assemble has a group of one caller's questions asked once the callers have
// joined it who could run anyway. It returns false if none has.
func (c *Coalescer[Q, A]) assemble(g *group[Q, A], questions int) bool {
	runtime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == g {
		c.group = nil
	}
	if len(g.questions) == questions {
		return false
	}
	c.busy += g.callers
	g.ctx, g.cancel = context.WithCancel(context.Background())
	go c.run(g)
	return true
}

// run asks a group's questions.
func (c *Coalescer[Q, A]) run(g *group[Q, A]) {
	g.answers = c.Together(g.ctx, g.questions)
	g.cancel()
	c.mu.Lock()
	c.busy -= g.callers
	g.over = true
	c.forget(g)
	c.mu.Unlock()
	close(g.done)
}

// leave counts a caller out who does not wait any longer for the answers to n
// questions, unless they are there. The last one ends the command.
func (c *Coalescer[Q, A]) leave(g *group[Q, A], from, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.over {
		return false
	}
	for i := from; i < from+n; i++ {
		g.left = append(g.left, i)
		if c.Owner == nil {
			continue
		}
		owner := c.Owner(&g.questions[i])
		if c.abandoned == nil {
			c.abandoned = make(map[string][]*group[Q, A])
		}
		c.abandoned[owner] = append(c.abandoned[owner], g)
		c.some.Store(true)
	}
	if len(g.left) == len(g.questions) {
		g.cancel()
	}
	return true
}

// forget forgets what was abandoned in a group, which is over. Under c.mu.
func (c *Coalescer[Q, A]) forget(g *group[Q, A]) {
	for _, i := range g.left {
		if c.Owner == nil {
			return
		}
		owner := c.Owner(&g.questions[i])
		c.abandoned[owner] = slices.DeleteFunc(c.abandoned[owner], func(o *group[Q, A]) bool {
			return o == g
		})
		if len(c.abandoned[owner]) == 0 {
			delete(c.abandoned, owner)
		}
	}
	c.some.Store(len(c.abandoned) > 0)
}

// Settle waits until the questions that an owner has abandoned are answered or
// given up, while ctx lives. Such a question may be sent only later, and what
// undoes it must not overtake it.
func (c *Coalescer[Q, A]) Settle(ctx context.Context, owner string) error {
	if !c.some.Load() {
		return nil
	}
	c.mu.Lock()
	pending := slices.Clone(c.abandoned[owner])
	c.mu.Unlock()
	for _, g := range pending {
		select {
		case <-g.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ask asks alone.
func (c *Coalescer[Q, A]) ask(ctx context.Context, questions []Q) []A {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.busy--
		c.mu.Unlock()
	}()
	return c.Alone(ctx, questions)
}
