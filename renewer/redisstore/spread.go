package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// spread is call for what may be on several servers: the commands for each shard go in a pipeline
// of their own, at the same time, so that a shard that does not answer holds up neither the
// others' answers nor what must be sent to them again. The commands pass through the shard's
// window, unless there is none.
func (s *sender) spread(ctx context.Context, through *windows, todo job) {
	if s.topology == nil {
		s.pass(ctx, through, 0, todo)
		return
	}
	parts := make(map[int][]int)
	for i := range todo.size() {
		shard := s.topology.Shard(slotOf(todo.name(i)))
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
	s.topology.Review(failed.Load())
}

// pass is call through the window to a shard, in as many parts as that needs.
func (s *sender) pass(ctx context.Context, through *windows, shard int, todo job) (failed bool) {
	if through == nil {
		return s.call(ctx, todo, false)
	}
	w, n := through.of(shard), todo.size()
	for from := 0; from < n; {
		to, items := from+1, todo.weight(from)
		for to < n && items+todo.weight(to) <= w.most {
			items += todo.weight(to)
			to++
		}
		part := todo
		if to-from < n {
			part = share{todo, numbers(from, to)}
		}
		from = to
		if err := w.enter(ctx, items); err != nil {
			for i := range part.size() {
				part.read(i, rueidis.NewErrorResult(err))
			}
			failed = true
			continue
		}
		failed = s.callAndLeave(ctx, w, items, part) || failed
	}
	return failed
}

// callAndLeave is call from within a window.
func (s *sender) callAndLeave(ctx context.Context, w *window, items int, todo job) (failed bool) {
	defer w.leave(items)
	return s.call(ctx, todo, true)
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
	job   job
	items []int
}

func (p share) size() int         { return len(p.items) }
func (p share) repeatable() bool  { return p.job.repeatable() }
func (p share) name(i int) string { return p.job.name(p.items[i]) }
func (p share) weight(i int) int  { return p.job.weight(p.items[i]) }

func (p share) command(i int, whole bool) rueidis.Completed {
	return p.job.command(p.items[i], whole)
}

func (p share) read(i int, r rueidis.RedisResult) { p.job.read(p.items[i], r) }
