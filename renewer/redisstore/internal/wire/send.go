// Package wire is how requests reach the servers, by the caller's own client,
// and their replies the ones who asked. It knows commands, slots and shards,
// and no lock.
//
// What it promises: a command is sent again only where it has had no effect, or
// where the server answers what it has done as before ([Job] Repeatable). A
// caller gets its own answer, and returns when its context ends, though the
// server, or another caller's dial, does not. What was not sent says so
// ([ErrNotSent]). All connections are the client's: it alone says which server
// is the primary.
//
// A request goes down by
//
//	coalesce.go  callers who meet share a command
//	send.go      by shard, each in a pipeline, or on a lone caller's own connection;
//	             sent again where that is safe
//	window.go    no more at once than a server does in some ms
//	dialing.go   none waits for a connection longer than its context says; one
//	             that leads to a replica is given up
package wire

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// MaxRounds bounds how often Call sends a command. The server may forget the
// script once or twice in between; a crowd of callers with short deadlines may
// spoil a few dials in a row.
const MaxRounds = 10

// Job is commands to be sent, and what is to be done with their results.
// An interface rather than functions, as it costs one allocation.
type Job interface {
	Size() int
	Slot(i int) uint16                           // of the keys that command i is about
	Weight(i int) int                            // how many locks it is about
	Command(i int, whole bool) rueidis.Completed // whole: with the whole text of the script
	Read(i int, r rueidis.RedisResult)
	Repeatable() bool // what the server has done already, it answers as before
}

// Sender sends jobs to the servers by the caller's client. It sends a command
// again only if that has had no effect. Its methods may be called concurrently.
type Sender struct {
	Client   rueidis.Client
	Topology *topology.Topology // of a cluster; nil otherwise
	// Refused is told whether the client has been closed, when it refuses a
	// request.
	Refused func(closed bool)

	direct direct
}

// Call sends commands in one pipeline and has their results read. It sends
// again those that were refused because the server does not know the script,
// now by its whole text, and those that never left. (Lua.ExecMulti of rueidis
// would load the script on every server on every call.) It reports whether any
// failed.
//
// All commands go where the client's own do. A connection of the store's own
// would stay with a former primary that can still be reached after a fail-over,
// and renew there what others can have on the new one.
//
// One command may go directly.
func (s *Sender) Call(ctx context.Context, todo Job, directly bool) (failed bool) {
	n := todo.Size()
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
			commands[j] = todo.Command(nth(j), whole)
		}
		for j, r := range doMulti(ctx, s.Client, commands) {
			unknown := UnknownScript(r)
			whole = whole || unknown
			if round < MaxRounds && (unknown || neverSent(ctx, r)) {
				again = append(again, nth(j))
				continue
			}
			failed = failed || r.Error() != nil
			s.NoteClosed(ctx, r)
			todo.Read(nth(j), r)
		}
		left, again = again, nil
		n = len(left)
	}
	return failed
}

// callOne is Call for one command, which needs no slices.
func (s *Sender) callOne(ctx context.Context, todo Job, directly bool) (failed bool) {
	if directly {
		directly = s.direct.begin()
		defer s.direct.end()
	}
	whole := false
	for round := 1; ; round++ {
		var r rueidis.RedisResult
		var again bool
		if directly {
			r = doOrLeave(ctx, s.Client, todo.Command(0, whole))
			again = todo.Repeatable() && Broken(ctx, r)
		} else {
			r = Do(ctx, s.Client, todo.Command(0, whole))
			again = neverSent(ctx, r)
		}
		directly = false
		unknown := UnknownScript(r)
		whole = whole || unknown
		if round == MaxRounds || !unknown && !again {
			s.NoteClosed(ctx, r)
			todo.Read(0, r)
			return r.Error() != nil
		}
	}
}

// Broken reports whether a direct request failed since its connection has
// ended, perhaps before: no goroutine reads it while no request is under way.
func Broken(ctx context.Context, r rueidis.RedisResult) bool {
	err := r.NonRedisError()
	return err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, os.ErrDeadlineExceeded)
}

// neverSent reports whether a command did not leave because of another caller.
// When there is no connection, rueidis lets the first caller dial for all,
// under that caller's context: if that context ends, the commands of all fail.
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

// Pair sends two commands to one server, once, in one write. No other client's
// come between them: on a connection of the caller's own since a server carries
// out at once what it reads at once, if the two are short; and on that which
// all share, where one read may end between them, since they are a transaction.
// An answer may be an error of the server. room must not be touched any more.
// lost means that the two may be carried out yet.
func (s *Sender) Pair(
	ctx context.Context, room *[4]rueidis.Completed, a, b rueidis.Completed,
) (first, second rueidis.RedisMessage, lost bool, err error) {
	directly := s.direct.begin()
	defer s.direct.end()
	if directly && !shares.Load() {
		room[0], room[1] = a, b
		r := doMultiOrLeave(ctx, s.Client, room[:2])
		first, _ = r[0].ToMessage()
		second, _ = r[1].ToMessage()
		return first, second, false, errors.Join(r[0].NonRedisError(), r[1].NonRedisError())
	}
	room[0], room[1], room[2] = s.Client.B().Multi().Build(), a, b
	room[3] = s.Client.B().Exec().Build()
	r := doMulti(ctx, s.Client, room[:])
	for i := range r {
		if err := r[i].Error(); err != nil { // EXECABORT comes last
			s.NoteClosed(ctx, r[i])
			return first, second, r[i].NonRedisError() != nil && !neverSent(ctx, r[i]), err
		}
	}
	answers, err := r[3].ToArray()
	if err != nil || len(answers) != 2 {
		return first, second, false, errors.Join(err, errUnreadable)
	}
	return answers[0], answers[1], false, nil
}

var errUnreadable = errors.New("redisstore: unreadable reply to a transaction")

// CallTogether sends the one command of a job once, for several callers. It
// reports false if each is to ask alone: when the command has had no effect; or
// when the server refused it, perhaps because of one of them only, and it is
// repeatable.
func (s *Sender) CallTogether(ctx context.Context, todo Job) (answered bool) {
	if todo.Size() != 1 {
		return false
	}
	s.direct.begin()
	defer s.direct.end()
	r := Do(ctx, s.Client, todo.Command(0, false))
	_, refused := rueidis.IsRedisErr(r.Error())
	if refused && todo.Repeatable() || UnknownScript(r) || neverSent(ctx, r) {
		return false
	}
	s.NoteClosed(ctx, r)
	todo.Read(0, r)
	return true
}

// Closed reports whether the client has been closed: then it refuses a fresh
// request too, and not just those that were on their way to a server from which
// it has turned away. (A client that could not dial when it was closed goes on
// dialling; rueidis does not tell those from others.)
func (s *Sender) Closed(ctx context.Context) bool {
	return errors.Is(Do(ctx, s.Client, s.Client.B().Ping().Build()).Error(), rueidis.ErrClosing)
}

// NoteClosed finds out whether a request that was refused since its connection
// is closing was refused because the client has been closed.
func (s *Sender) NoteClosed(ctx context.Context, r rueidis.RedisResult) {
	if errors.Is(r.NonRedisError(), rueidis.ErrClosing) {
		s.Refused(s.Closed(ctx))
	}
}

// UnknownScript reports whether the server has not seen the script
// since it started, or since SCRIPT FLUSH.
func UnknownScript(r rueidis.RedisResult) bool {
	e, ok := rueidis.IsRedisErr(r.Error())
	return ok && strings.HasPrefix(e.Error(), "NOSCRIPT")
}

// The request of a lone caller goes directly, and so do those of four who meet:
// each by a connection of the client's pool, which the caller's own goroutine
// writes and reads. On the connection that all share, which is for requests
// that travel together and for heartbeats, it would pass through two more
// goroutines. All connections are the client's: it alone says which server is
// the primary.
//
// rueidis gives a direct request up at its context's deadline or after
// ConnWriteTimeout, and does not hear that the context is cancelled before.
//
// Requests on two connections may reach the server in another order than they
// were sent. It matters for none: a caller asks for the next when the one
// before was answered; a heartbeat renews for the owner only; and behind an
// acquire that was not answered the engine cleans up three times: at once, 5 ms
// later, as that may have overtaken it, and when it can't take effect any
// longer.

const (
	// directMost is how many requests may go directly at once. More callers
	// share commands, which takes less of the processors.
	directMost = 4
	// warmUp is how many requests in a row must each have met fewer than
	// directMost others, with no pause of freshFor between them, for the next
	// to go directly. So no caller who comes now and then waits for a dial, or
	// meets a connection that has ended meanwhile.
	warmUp   = 16
	freshFor = time.Second
)

// direct counts the requests that could go directly.
type direct struct {
	active atomic.Int32 // under way
	alone  atomic.Int32 // how many in a row have not met directMost others, up to warmUp
	last   atomic.Int64 // when the latest was made, by the clock on the wall in ns
}

// begin counts a request in, and reports whether it is to go directly. end must
// follow.
func (d *direct) begin() bool {
	now := time.Now().UnixNano()
	paused := now-d.last.Swap(now) > int64(freshFor)
	if d.active.Add(1) > directMost || paused {
		d.alone.Store(0)
		return false
	}
	if d.alone.Load() == warmUp {
		return true
	}
	d.alone.Add(1)
	return false
}

func (d *direct) end() { d.active.Add(-1) }

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
			if s.pass(ctx, through, shard, subset{todo, items}) {
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
			part = subset{todo, numbers(from, to)}
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

// subset is some of a job's commands.
type subset struct {
	job   Job
	items []int
}

func (s subset) Size() int         { return len(s.items) }
func (s subset) Repeatable() bool  { return s.job.Repeatable() }
func (s subset) Slot(i int) uint16 { return s.job.Slot(s.items[i]) }
func (s subset) Weight(i int) int  { return s.job.Weight(s.items[i]) }

func (s subset) Command(i int, whole bool) rueidis.Completed {
	return s.job.Command(s.items[i], whole)
}

func (s subset) Read(i int, r rueidis.RedisResult) { s.job.Read(s.items[i], r) }

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
