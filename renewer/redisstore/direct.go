package redisstore

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// The request of a lone caller goes directly, and so do those of two who meet: each by a connection
// of the client's pool, which the caller's own goroutine writes and reads. On the connection that
// all share, which is for requests that travel together and for heartbeats, it would pass through
// two more goroutines. All connections are the client's: it alone says which server is the primary.
//
// rueidis does not hear that the context of a direct request is cancelled. So the connection is
// told whom it serves, and is cut when that caller leaves. It is told by the deadline, which
// rueidis sets on a connection before it writes, and which is like no other request's.
//
// Requests on two connections may reach the server in another order than they were sent. It matters
// for none: a caller asks for the next when the one before was answered; a heartbeat renews for the
// owner only; and behind an acquire that was not answered the engine cleans up three times: at
// once, 5 ms later, as that may have overtaken it, and when it can't take effect any longer.

// directMost is how many requests may go directly at once. More callers share commands, which
// takes less of the processors.
const directMost = 2

// warmUp is how many requests in a row must not have met directMost others, without a pause of the
// time that one may take, for the next to go directly. So no caller who comes now and then waits
// for a dial.
const warmUp = 16

// direct sends the requests of lone callers.
type direct struct {
	answer time.Duration // how long one may take
	// limit is for an answer, in ns. The client's own is ConnWriteTimeout, and a longer one does
	// not reach the connection: then it is halved, down to shortestLimit. 0: none reaches it.
	limit  atomic.Int64
	active atomic.Int32 // requests under way that could go directly
	alone  atomic.Int32 // how many in a row have not met directMost others, up to warmUp
	last   atomic.Int64 // when the latest was made, by the clock on the wall in ns
}

// shortestLimit is what [ClientOption] gives at least.
const shortestLimit = 10 * time.Millisecond

func newDirect(limit time.Duration) *direct {
	d := &direct{answer: limit}
	d.limit.Store(int64(limit))
	return d
}

// halve has less time for the next answer, as limit did not reach the connection.
func (d *direct) halve(limit int64) {
	next := limit / 2
	if next < int64(shortestLimit) {
		next = 0
	}
	d.limit.CompareAndSwap(limit, next)
}

// enter counts a request in, and reports whether it is to go directly. leave must follow.
func (d *direct) enter() bool {
	now, limit := time.Now().UnixNano(), d.limit.Load()
	if d.active.Add(1) > directMost || now-d.last.Swap(now) > limit {
		d.alone.Store(0)
		return false
	}
	if d.alone.Load() < warmUp {
		d.alone.Add(1)
		return false
	}
	return limit > 0
}

// leave counts a request out.
func (d *direct) leave() { d.active.Add(-1) }

// do is client.Do by a connection of the caller's own. It returns when ctx ends.
func (d *direct) do(
	ctx context.Context, client rueidis.Client, command rueidis.Completed,
) rueidis.RedisResult {
	limit := d.limit.Load()
	call := beginCall(ctx, time.Duration(limit))
	defer call.end()
	r := doOrLeave(call, client, command)
	if ctx.Err() != nil {
		d.alone.Store(0) // the connection is given up, and nobody is to wait for the next dial
	}
	if r.NonRedisError() == nil && call.conn == nil {
		d.halve(limit)
	}
	return ended(ctx, r)
}

// ended is the result of a direct request whose caller has left, or whose own deadline has passed,
// of which ctx knows nothing.
func ended(ctx context.Context, r rueidis.RedisResult) rueidis.RedisResult {
	switch err := r.NonRedisError(); {
	case err == nil:
		return r
	case ctx.Err() != nil:
		return rueidis.NewErrorResult(ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return rueidis.NewErrorResult(os.ErrDeadlineExceeded)
	}
	return r
}

// directCall is a request that goes directly, as a context with a deadline of its own.
type directCall struct {
	context.Context

	deadline time.Time
	conn     *countedConn // which serves it. Guarded by directCalls.mu
	over     bool         // its caller has left. Guarded by directCalls.mu
	cut      func()       // has its connection given up
	unwatch  func() bool  // keeps that from being called when the context ends; nil if that can't
}

// spareCalls have none of what they served. There are no others in it than New makes.
var spareCalls = sync.Pool{New: func() any {
	call := new(directCall)
	call.cut = func() { directCalls.cut(call) }
	return call
}}

// beginCall enters a request, which is given up when ctx ends.
func beginCall(ctx context.Context, limit time.Duration) *directCall {
	call, _ := spareCalls.Get().(*directCall)
	call.Context = ctx
	directCalls.begin(call, limit)
	if ctx.Done() != nil {
		call.unwatch = context.AfterFunc(ctx, call.cut)
	}
	return call
}

// end takes a request out.
func (c *directCall) end() {
	unused := c.unwatch == nil || c.unwatch()
	unused = unused && c.Err() == nil // else what serves it may have been left behind
	directCalls.end(c)
	if unused {
		c.Context, c.conn, c.unwatch = nil, nil, nil
		spareCalls.Put(c)
	}
}

// Deadline returns when the connection is given up.
func (c *directCall) Deadline() (time.Time, bool) { return c.deadline, true }

// directCalls are those under way, by their deadlines.
var directCalls = callTable{calls: make(map[int64]*directCall)}

type callTable struct {
	mu    sync.Mutex
	calls map[int64]*directCall
}

// begin enters a call, with a deadline that no other has.
func (t *callTable) begin(call *directCall, limit time.Duration) {
	call.deadline = time.Now().Add(limit)
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.calls[call.deadline.UnixNano()] != nil {
		call.deadline = call.deadline.Add(-1)
	}
	t.calls[call.deadline.UnixNano()] = call
}

func (t *callTable) end(call *directCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, call.deadline.UnixNano())
	if call.conn != nil && call.conn.serves == call {
		call.conn.serves = nil
	}
}

// cut has the client give up the connection of a call whose caller has left.
func (t *callTable) cut(call *directCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call.over = true
	if call.conn != nil && call.conn.serves == call {
		_ = call.conn.Conn.SetDeadline(longAgo)
	}
}

// serve sets a connection's deadline, and notes that it is to serve the call with that deadline. It
// reports whether there is such a call, and its caller waits for it.
func (t *callTable) serve(conn *countedConn, deadline time.Time) (waits bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call := t.calls[deadline.UnixNano()]
	conn.serves = call
	switch {
	case call == nil || !conn.telling:
		return false, conn.Conn.SetDeadline(deadline)
	case call.over:
		return false, conn.Conn.SetDeadline(longAgo)
	}
	call.conn = conn
	return true, conn.Conn.SetDeadline(deadline)
}

// longAgo is a deadline that is over.
var longAgo = time.Unix(1, 0)
