package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// maxRounds bounds how often call sends a command. The server may forget the script once or
// twice in between; a crowd of callers with short deadlines may spoil a few dials in a row.
const maxRounds = 10

// job is commands to be sent, and what is to be done with their results.
// An interface rather than functions, as it costs one allocation.
type job interface {
	size() int
	name(i int) string // of the lock that command i is about, or of one of them
	weight(i int) int  // how many locks it is about
	command(i int, whole bool) rueidis.Completed
	read(i int, r rueidis.RedisResult)
	repeatable() bool // what the server has done already, it answers as before
}

// sender sends jobs to the servers by the caller's client. It sends a command
// again only if that has had no effect. Its methods may be called concurrently.
type sender struct {
	client   rueidis.Client
	topology *topology.Topology // of a cluster; nil otherwise
	errors   *errorReader
	answer   time.Duration // how long one may take
	direct   direct
}

// call sends commands in one pipeline and has their results read. It sends again those that were
// refused because the server does not know the script, now by its whole text, and those that never
// left. (Lua.ExecMulti of rueidis would load the script on every server on every call.) It reports
// whether any failed.
//
// All commands go where the client's own do. A connection of the store's own would stay with a
// former primary that can still be reached after a fail-over, and renew there what others can have
// on the new one.
//
// One command may go directly.
func (s *sender) call(ctx context.Context, todo job, directly bool) (failed bool) {
	n := todo.size()
	if n == 1 {
		return s.callOne(ctx, todo, directly)
	}
	var left, again []int // nil left: all of them
	whole := false
	for round := 1; n > 0; round++ {
		nth := func(j int) int {
			if left == nil {
				return j
			}
			return left[j]
		}
		// Not reused: when ctx ends, the client keeps what it has not sent yet.
		commands := make([]rueidis.Completed, n)
		for j := range commands {
			commands[j] = todo.command(nth(j), whole)
		}
		for j, r := range doMulti(ctx, s.client, commands) {
			unknown := unknownScript(r)
			whole = whole || unknown
			if round < maxRounds && (unknown || neverSent(ctx, r)) {
				again = append(again, nth(j))
				continue
			}
			failed = failed || r.Error() != nil
			s.noteClosed(ctx, r)
			todo.read(nth(j), r)
		}
		left, again = again, nil
		n = len(left)
	}
	return failed
}

// callOne is call for one command, which needs no slices.
func (s *sender) callOne(ctx context.Context, todo job, directly bool) (failed bool) {
	if directly {
		directly = s.direct.begin()
		defer s.direct.end()
	}
	whole := false
	for round := 1; ; round++ {
		var r rueidis.RedisResult
		var again bool
		if directly {
			r = doOrLeave(ctx, s.client, todo.command(0, whole))
			again = todo.repeatable() && broken(ctx, r)
		} else {
			r = do(ctx, s.client, todo.command(0, whole))
			again = neverSent(ctx, r)
		}
		directly = false
		unknown := unknownScript(r)
		whole = whole || unknown
		if round == maxRounds || !unknown && !again {
			s.noteClosed(ctx, r)
			todo.read(0, r)
			return r.Error() != nil
		}
	}
}

// broken reports whether a direct request failed since its connection has ended, perhaps before:
// no goroutine reads it while no request is under way.
func broken(ctx context.Context, r rueidis.RedisResult) bool {
	err := r.NonRedisError()
	return err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, os.ErrDeadlineExceeded)
}

// neverSent reports whether a command did not leave because of another caller. When there is no
// connection, rueidis lets the first caller dial for all, under that caller's context: if that
// context ends, the commands of all fail.
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

// callTogether sends the one command of a job once, for several callers. It reports false
// if each is to ask alone: when the command has had no effect; or when the server refused
// it, perhaps because of one of them only, and it is repeatable.
func (s *sender) callTogether(ctx context.Context, todo job) (answered bool) {
	if todo.size() != 1 {
		return false
	}
	s.direct.begin()
	defer s.direct.end()
	r := do(ctx, s.client, todo.command(0, false))
	_, refused := rueidis.IsRedisErr(r.Error())
	if refused && todo.repeatable() || unknownScript(r) || neverSent(ctx, r) {
		return false
	}
	s.noteClosed(ctx, r)
	todo.read(0, r)
	return true
}

// closed reports whether the client has been closed: then it refuses a fresh request too, and not
// just those that were on their way to a server from which it has turned away. (A client that could
// not dial when it was closed goes on dialling; rueidis does not tell those from others.)
func (s *sender) closed(ctx context.Context) bool {
	return errors.Is(do(ctx, s.client, s.client.B().Ping().Build()).Error(), rueidis.ErrClosing)
}

// noteClosed finds out whether a request that was refused since its connection is closing was
// refused because the client has been closed.
func (s *sender) noteClosed(ctx context.Context, r rueidis.RedisResult) {
	if errors.Is(r.NonRedisError(), rueidis.ErrClosing) {
		s.errors.closed.Store(s.closed(ctx))
	}
}
