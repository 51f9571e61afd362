package redisstore

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/redis/rueidis"
)

// maxRounds bounds how often call sends a command.
const maxRounds = 3

// call sends n commands in one pipeline and hands their results to read. It sends again those that were refused because the
// server does not know the script, now by its whole text, and those that never left. (Lua.ExecMulti of rueidis would load the
// script on every server on every call.)
func (s *Store) call(
	ctx context.Context, n int,
	build func(i int, whole bool) rueidis.Completed, read func(i int, r rueidis.RedisResult),
) {
	var todo, again []int // nil todo: all of them
	whole := false
	for round := 1; n > 0; round++ {
		for j, r := range s.send(ctx, n, todo, whole, build) {
			i := j
			if todo != nil {
				i = todo[j]
			}
			unknown := unknownScript(r)
			whole = whole || unknown
			if round < maxRounds && (unknown || neverSent(ctx, r)) {
				again = append(again, i)
			} else {
				read(i, r)
			}
		}
		todo, again = again, nil
		n = len(todo)
	}
}

// send builds and sends the n commands of todo, or 0 to n-1 if that is nil.
func (s *Store) send(
	ctx context.Context, n int, todo []int, whole bool, build func(i int, whole bool) rueidis.Completed,
) []rueidis.RedisResult {
	nth := func(j int) int {
		if todo == nil {
			return j
		}
		return todo[j]
	}
	if n == 1 {
		return []rueidis.RedisResult{s.client.Do(ctx, build(nth(0), whole))}
	}
	// Not reused: when ctx ends, the client keeps what it has not sent yet.
	commands := make([]rueidis.Completed, n)
	for j := range commands {
		commands[j] = build(nth(j), whole)
	}
	return s.client.DoMulti(ctx, commands...)
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
