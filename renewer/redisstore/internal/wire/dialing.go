package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A call must return when its context ends. rueidis keeps to that once it has a
// connection, and not while one is being made: a caller who needs it waits for
// the dial and the greeting of another caller, for up to Dialer.Timeout,
// whatever its own context says. So a client made with ClientOption counts the
// connections that are being made. While there are any, each request is made in
// a goroutine of its own, which its caller can leave behind. Usually there are
// none, and a request costs one look at the counter.

// dialing counts the connections of this process that are being made, or that
// have ended a moment ago, so that another is about to be made. Another
// client's connections count too: that costs goroutines, and nothing else.
//
// It misses one case: a caller looks, finds none, and then needs a connection
// that has ended within the microseconds since.
var dialing atomic.Int64

// madeLast is when a connection was made last, since began; 0: none was
// counted.
var (
	madeLast atomic.Int64
	began    = time.Now()
)

// shares is whether a client of this process has one connection for all,
// whatever goes directly.
var shares atomic.Bool

// Shares reports whether a client of this process has one connection for all.
func Shares() bool { return shares.Load() }

// Quiet reports whether no connection was made for a time, and none is being
// made. Without any that was counted, it does not know.
func Quiet(d time.Duration) bool {
	last := madeLast.Load()
	return last != 0 && dialing.Load() == 0 && int64(time.Since(began))-last > int64(d)
}

// endedFor is how long a connection that has ended counts: callers who come
// until the next dial begins must not wait for it.
const endedFor = 100 * time.Millisecond

// Do is client.Do by the connection that all share, but it returns when ctx
// ends, even if there is no connection yet.
func Do(ctx context.Context, client rueidis.Client, command rueidis.Completed) rueidis.RedisResult {
	return doOrLeave(undated(ctx), client, command.ToPipe())
}

// doOrLeave is client.Do, but it returns when ctx ends, even if there is no
// connection yet.
func doOrLeave(
	ctx context.Context, client rueidis.Client, command rueidis.Completed,
) rueidis.RedisResult {
	if dialing.Load() == 0 || ctx.Done() == nil {
		return client.Do(ctx, command)
	}
	done := make(chan rueidis.RedisResult, 1)
	go func() { done <- client.Do(ctx, command) }()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// doMulti is client.DoMulti in the way of Do.
func doMulti(
	ctx context.Context, client rueidis.Client, commands []rueidis.Completed,
) []rueidis.RedisResult {
	commands[0] = commands[0].ToPipe()
	return doMultiOrLeave(undated(ctx), client, commands)
}

// doMultiOrLeave is client.DoMulti in the way of doOrLeave.
func doMultiOrLeave(
	ctx context.Context, client rueidis.Client, commands []rueidis.Completed,
) []rueidis.RedisResult {
	if dialing.Load() == 0 || ctx.Done() == nil {
		return client.DoMulti(ctx, commands...)
	}
	n := len(commands) // the goroutine has them from here on
	done := make(chan []rueidis.RedisResult, 1)
	go func() { done <- client.DoMulti(ctx, commands...) }()
	select {
	case results := <-done:
		return results
	case <-ctx.Done():
		results := make([]rueidis.RedisResult, n)
		for i := range results {
			results[i] = rueidis.NewErrorResult(ctx.Err())
		}
		return results
	}
}

// undated hides the deadline of a context, which ends at that all the same.
// rueidis hears no other end of one that has a deadline until something has
// shared its connection.
func undated(ctx context.Context) context.Context {
	if _, dated := ctx.Deadline(); dated {
		return undatedContext{ctx}
	}
	return ctx
}

type undatedContext struct{ context.Context }

func (undatedContext) Deadline() (deadline time.Time, ok bool) { return }

// DialFunc is the type of rueidis.ClientOption.DialCtxFn.
type DialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// CountingDial returns a function that dials as the client would with the
// options, and counts what is being made.
func CountingDial(opt *rueidis.ClientOption) DialFunc {
	// the client still heeds DialFn
	dial, oldDial, delay := opt.DialCtxFn, opt.DialFn, opt.DisableTCPNoDelay
	if opt.AlwaysPipelining {
		shares.Store(true)
	}
	return func(ctx context.Context, addr string, dialer *net.Dialer,
		config *tls.Config,
	) (conn net.Conn, err error) {
		dialing.Add(1)
		switch {
		case dial != nil:
			conn, err = dial(ctx, addr, dialer, config)
		case oldDial != nil:
			conn, err = oldDial(addr, dialer, config)
		case config != nil:
			conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp",
				addr)
		default:
			conn, err = dialer.DialContext(ctx, "tcp", addr)
		}
		if err != nil {
			dialing.Add(-1)
			return nil, err
		}
		if delay {
			disableNoDelay(conn)
		}
		return newCountedConn(ctx, addr, conn), nil
	}
}

// disableNoDelay does what the client does for DisableTCPNoDelay, but can't
// with a type of connection that it does not know.
func disableNoDelay(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(false) // a matter of speed only
	}
}

// countedConn is being made until the server's first bytes have come. Until
// then it ends with the context of the caller who needed it first: in the
// greeting, rueidis heeds only that one's deadline, and not every context has
// one.
type countedConn struct {
	net.Conn
	addr string // what was dialled

	made   atomic.Bool // counted out; the one who sets it has leave to itself
	leave  func() bool // stops waiting for the end of the caller's context
	spoilt atomic.Pointer[error]
	closed atomic.Bool

	replies lengths // of who reads, of whom there is one at a time
}

func newCountedConn(ctx context.Context, addr string, conn net.Conn) *countedConn {
	c := &countedConn{Conn: conn, addr: addr}
	c.leave = context.AfterFunc(ctx, func() {
		if !c.made.Swap(true) {
			// Others who need it try again: see neverSent.
			err := fmt.Errorf("redisstore: the caller who made the connection has given up: %w",
				ctx.Err())
			c.spoilt.Store(&err)
			_ = c.Conn.Close() // by which the client hears of it
			dialing.Add(-1)
		}
	})
	remember(addr, c)
	return c
}

// Read reads from the connection.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.made.Load() {
		c.countOut()
	}
	if c.replies.check(b[:n]) != nil {
		c.spoilt.Store(&errReply) // for who writes at this moment
		_ = c.Close()             // nothing more is read from it
		return 0, errReply
	}
	return n, c.explain(err)
}

// Write writes to the connection.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

func (c *countedConn) explain(err error) error {
	if err != nil {
		if spoilt := c.spoilt.Load(); spoilt != nil {
			return *spoilt
		}
	}
	return err
}

// Close closes the connection.
func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		forget(c.addr, c)
		if !c.countOut() {
			dialing.Add(1)
			time.AfterFunc(endedFor, func() { dialing.Add(-1) })
		}
	}
	return c.Conn.Close()
}

// countOut counts the connection out, if it is not yet. It reports whether it
// was being made.
func (c *countedConn) countOut() bool {
	if c.made.Swap(true) {
		return false
	}
	c.leave()
	c.leave = nil // which has the context
	madeLast.Store(int64(time.Since(began)))
	dialing.Add(-1)
	return true
}
