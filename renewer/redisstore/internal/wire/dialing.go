package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
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

// One address may lead to another server after a fail-over: a Service of
// Kubernetes, a managed primary endpoint, a proxy that looks for the primary.
// The former primary keeps its connections and refuses to write, and rueidis
// gives up none that answers. So connections that ClientOption has made are
// known by address here, and an answer that a replica alone gives ends them:
// whatever dials next finds the primary.

// hangUpPause is how long connections to an address are left alone after they
// were ended: a server that is a replica for good costs one dial in this time.
const hangUpPause = time.Second

var errHungUp = errors.New("redisstore: the connection is given up: the server at its other end " +
	"is a replica, and the address may lead to the primary by now")

// lines are the open connections of this process to one address.
type lines struct {
	open   map[*countedConn]struct{}
	hungUp time.Time // when they were last ended
}

var (
	byAddressMu sync.Mutex
	byAddress   = make(map[string]*lines)
)

// remember notes a connection to an address, until forget.
func remember(addr string, c *countedConn) {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	l := byAddress[addr]
	if l == nil {
		l = &lines{open: make(map[*countedConn]struct{})}
		byAddress[addr] = l
	}
	l.open[c] = struct{}{}
}

func forget(addr string, c *countedConn) {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	l := byAddress[addr]
	if l == nil {
		return
	}
	delete(l.open, c)
	if len(l.open) == 0 && time.Since(l.hungUp) > hangUpPause {
		delete(byAddress, addr)
	}
}

// Counts reports whether ClientOption has made the options of a client that has
// a connection.
func Counts(client rueidis.Client) bool {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	for addr := range client.Nodes() {
		if byAddress[addr] != nil {
			return true
		}
	}
	return false
}

// HangUp ends the connections of this process to the server of a client that
// ClientOption has made the options of, once a second at most. Those of other
// clients to the same address end, too: it leads them astray as well. Requests
// under way fail, as when a server closes a connection.
//
// It returns at once, and does nothing for a client that dials by itself.
func HangUp(client rueidis.Client) {
	for addr := range client.Nodes() {
		for _, c := range hangUp(addr) {
			go c.hangUp() // TLS says goodbye first, for which a peer may let it wait
		}
	}
}

// hangUp returns the connections to end, none if that was done a moment ago.
func hangUp(addr string) (all []*countedConn) {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	l := byAddress[addr]
	if l == nil || time.Since(l.hungUp) < hangUpPause {
		return nil
	}
	l.hungUp = time.Now()
	for c := range l.open {
		all = append(all, c)
	}
	return all
}

// hangUp closes the connection under the client, which hears of it when it
// reads or writes.
func (c *countedConn) hangUp() {
	c.spoilt.CompareAndSwap(nil, &errHungUp)
	_ = c.Conn.Close()
}

// DoApart is client.DoMulti for commands of which one has the server wait, for
// as long as it says. They go by a connection of the client's pool for blocking
// commands: what others send by the one that all share would wait behind them,
// heartbeats too. It returns when ctx ends.
func DoApart(
	ctx context.Context, client rueidis.Client, within time.Duration,
	commands ...rueidis.Completed,
) []rueidis.RedisResult {
	n := len(commands) // the goroutine has them from here on
	done := make(chan []rueidis.RedisResult, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		done <- client.DoMulti(ctx, commands...)
	}()
	select {
	case results := <-done:
		return results
	case <-ctx.Done():
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(ctx.Err())}, n)
	}
}

// ServerOf is a client of the server that has a slot, as far as that is known.
func (s *Sender) ServerOf(slot uint16) rueidis.Client {
	if s.Topology == nil {
		return s.Client
	}
	nodes := s.Client.Nodes()
	if node := nodes[s.Topology.Addr(slot)]; node != nil {
		return node
	}
	for _, node := range nodes {
		return node // which will tell
	}
	return s.Client
}

// MovedTo is a client of the server where, as another says, the lock
// has moved to; nil if it has not, or if the client does not know that server.
func (s *Sender) MovedTo(ctx context.Context, r rueidis.RedisResult, key string) rueidis.Client {
	answer, ok := rueidis.IsRedisErr(r.Error())
	if !ok || s.Topology == nil {
		return nil
	}
	addr, ok := answer.IsMoved()
	if !ok {
		return nil
	}
	if node := s.Client.Nodes()[addr]; node != nil {
		return node
	}
	// A server that is new to the client: a command of which it
	// follows the redirection itself makes it look around.
	_ = Do(ctx, s.Client, s.Client.B().Get().Key(key).Build()).Error()
	return s.Client.Nodes()[addr]
}
