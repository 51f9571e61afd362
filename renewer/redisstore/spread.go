package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// spread is call for what may be on several servers: the commands for each shard go in a pipeline of their own, at the same time,
// so that a shard that does not answer holds up neither the others' answers nor what must be sent to them again.
func (s *Store) spread(ctx context.Context, todo job) {
	if s.shards == nil {
		s.call(ctx, todo)
		return
	}
	parts := make(map[int][]int)
	for i := range todo.size() {
		shard := s.shards.of(todo.name(i))
		parts[shard] = append(parts[shard], i)
	}
	var failed atomic.Bool
	var wg sync.WaitGroup
	for _, items := range parts {
		if len(parts) == 1 {
			failed.Store(s.call(ctx, todo))
			break
		}
		wg.Go(func() {
			if s.call(ctx, share{todo, items}) {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	s.shards.review(failed.Load())
}

// share is some of a job's commands.
type share struct {
	job   job
	items []int
}

func (p share) size() int         { return len(p.items) }
func (p share) name(i int) string { return p.job.name(p.items[i]) }

func (p share) command(i int, whole bool) rueidis.Completed {
	return p.job.command(p.items[i], whole)
}

func (p share) read(i int, r rueidis.RedisResult) { p.job.read(p.items[i], r) }
