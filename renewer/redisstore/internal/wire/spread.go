package wire

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Spread is Call for what may be on several servers: the commands for each
// shard go in a pipeline of their own, at the same time, so that a shard that
// does not answer holds up neither the others' answers nor what must be sent to
// them again. The commands pass through the shard's window, unless there is
// none.
func (s *Sender) Spread(ctx context.Context, through *Windows, todo Job) {
	if s.Topology == nil {
		s.pass(ctx, through, 0, todo)
		return
	}
	parts := make(map[int][]int)
	for i := range todo.Size() {
		shard := s.Topology.Shard(todo.Slot(i))
		parts[shard] = append(parts[shard], i)
	}
	var failed atomic.Bool
	var wg sync.WaitGroup
	for shard, items := range parts {
		if len(parts) == 1 {
			failed.Store(s.pass(ctx, through, shard, todo))
			break
		}
		wg.Go(func() {
			if s.pass(ctx, through, shard, share{todo, items}) {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	s.Topology.Review(failed.Load())
}

// pass is Call through the window to a shard, in as many parts as that needs.
func (s *Sender) pass(ctx context.Context, through *Windows, shard int, todo Job) (failed bool) {
	if through == nil {
		return s.Call(ctx, todo, false)
	}
	w, n := through.Of(shard), todo.Size()
	for from := 0; from < n; {
		to, items := from+1, todo.Weight(from)
		for to < n && items+todo.Weight(to) <= w.most {
			items += todo.Weight(to)
			to++
		}
		part := todo
		if to-from < n {
			part = share{todo, numbers(from, to)}
		}
		from = to
		if err := w.enter(ctx, items); err != nil {
			for i := range part.Size() {
				part.Read(i, rueidis.NewErrorResult(err))
			}
			failed = true
			continue
		}
		failed = s.callAndLeave(ctx, w, items, part) || failed
	}
	return failed
}

// callAndLeave is Call from within a window.
func (s *Sender) callAndLeave(ctx context.Context, w *Window, items int, todo Job) (failed bool) {
	defer w.leave(items)
	return s.Call(ctx, todo, true)
}

// numbers are those from one to below another.
func numbers(from, to int) []int {
	all := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// share is some of a job's commands.
type share struct {
	job   Job
	items []int
}

func (p share) Size() int         { return len(p.items) }
func (p share) Repeatable() bool  { return p.job.Repeatable() }
func (p share) Slot(i int) uint16 { return p.job.Slot(p.items[i]) }
func (p share) Weight(i int) int  { return p.job.Weight(p.items[i]) }

func (p share) Command(i int, whole bool) rueidis.Completed {
	return p.job.Command(p.items[i], whole)
}

func (p share) Read(i int, r rueidis.RedisResult) { p.job.Read(p.items[i], r) }

// Calls is a job of functions, which is sent once.
type Calls struct {
	N      int
	SlotOf func(i int) uint16
	Build  func(i int, whole bool) rueidis.Completed
	Take   func(i int, r rueidis.RedisResult)
}

// SpreadCalls is Spread for functions.
func (s *Sender) SpreadCalls(ctx context.Context, through *Windows, c Calls) {
	s.Spread(ctx, through, calls{c})
}

type calls struct{ Calls }

func (c calls) Repeatable() bool                            { return false }
func (c calls) Size() int                                   { return c.N }
func (c calls) Slot(i int) uint16                           { return c.SlotOf(i) }
func (c calls) Weight(int) int                              { return 1 }
func (c calls) Command(i int, whole bool) rueidis.Completed { return c.Build(i, whole) }
func (c calls) Read(i int, r rueidis.RedisResult)           { c.Take(i, r) }
