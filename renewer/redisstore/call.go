package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// maxRounds bounds how often call sends a command. The script may be forgotten once or twice in between; a crowd of callers
// with short deadlines may spoil a few dials in a row.
const maxRounds = 10

// call sends n commands in one pipeline and hands their results to read. It sends again those that were refused because the
// server does not know the script, now by its whole text, and those that never left. (Lua.ExecMulti of rueidis would load the
// script on every server on every call.)
func (s *Store) call(
	ctx context.Context, n int,
	build func(i int, whole bool) rueidis.Completed, read func(i int, r rueidis.RedisResult),
) {
	if n == 1 {
		s.callOne(ctx, build, read)
		return
	}
	var todo, again []int // nil todo: all of them
	whole := false
	for round := 1; n > 0; round++ {
		nth := func(j int) int {
			if todo == nil {
				return j
			}
			return todo[j]
		}
		// Not reused: when ctx ends, the client keeps what it has not sent yet.
		commands := make([]rueidis.Completed, n)
		for j := range commands {
			commands[j] = build(nth(j), whole)
		}
		for j, r := range s.client.DoMulti(ctx, commands...) {
			unknown := unknownScript(r)
			whole = whole || unknown
			if round < maxRounds && (unknown || neverSent(ctx, r)) {
				again = append(again, nth(j))
			} else {
				read(nth(j), r)
			}
		}
		todo, again = again, nil
		n = len(todo)
	}
}

// spread is call for commands of several locks: those of each shard in a pipeline of their own, at the same time, so that a shard
// that does not answer holds up neither the others' answers nor what must be sent to them again.
func (s *Store) spread(
	ctx context.Context, n int, nameOf func(i int) string,
	build func(i int, whole bool) rueidis.Completed, read func(i int, r rueidis.RedisResult),
) {
	if s.shards == nil {
		s.call(ctx, n, build, read)
		return
	}
	var failed atomic.Bool
	s.spreadOver(ctx, n, nameOf, build, func(i int, r rueidis.RedisResult) {
		if r.Error() != nil {
			failed.Store(true)
		}
		read(i, r)
	})
	s.shards.review(failed.Load())
}

func (s *Store) spreadOver(
	ctx context.Context, n int, nameOf func(i int) string,
	build func(i int, whole bool) rueidis.Completed, read func(i int, r rueidis.RedisResult),
) {
	parts := make(map[int][]int)
	for i := range n {
		shard := s.shards.of(nameOf(i))
		parts[shard] = append(parts[shard], i)
	}
	if len(parts) <= 1 {
		s.call(ctx, n, build, read)
		return
	}
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			s.call(ctx, len(part), func(j int, whole bool) rueidis.Completed { return build(part[j], whole) },
				func(j int, r rueidis.RedisResult) { read(part[j], r) })
		})
	}
	wg.Wait()
}

// callOne is call for one command, which needs no slices.
func (s *Store) callOne(
	ctx context.Context, build func(i int, whole bool) rueidis.Completed, read func(i int, r rueidis.RedisResult),
) {
	whole := false
	for round := 1; ; round++ {
		r := s.client.Do(ctx, build(0, whole))
		unknown := unknownScript(r)
		whole = whole || unknown
		if round == maxRounds || !unknown && !neverSent(ctx, r) {
			read(0, r)
			return
		}
	}
}

// neverSent tells whether the command did not leave for no fault of its own. When there is no connection, rueidis lets the
// first caller dial for all, under that caller's context: when that one is cancelled, everybody's command fails.
func neverSent(ctx context.Context, r rueidis.RedisResult) bool {
	err := r.NonRedisError()
	if err == nil || ctx.Err() != nil {
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && errors.Is(err, os.ErrDeadlineExceeded)
}
