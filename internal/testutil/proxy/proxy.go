package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// Direction is one way through the proxy, or both.
type Direction uint8

// The directions.
const (
	Up   Direction = 1 << iota // from the client to the server
	Down                       // from the server to the client
	Both = Up | Down
)

// Then says what becomes of a connection after DropReply has dropped a reply on
// it. It can't go on: the client would take every later reply for the answer to
// the request before.
type Then uint8

const (
	// ThenReset resets the connection on the client's side. The
	// server gets to read all that was sent, then the end.
	ThenReset Then = iota
	// ThenMute leaves the connection open, but drops all that the server still
	// sends on it.
	ThenMute
)

// Proxy passes connections on to a target. Its methods may be called
// concurrently.
type Proxy struct {
	listener *net.TCPListener
	open     context.Context // ended by Close
	end      context.CancelFunc
	running  sync.WaitGroup // every goroutine of the proxy

	mu      sync.Mutex // guards what follows
	target  netip.AddrPort
	faults  faults
	changed chan struct{} // closed, and made anew, when faults change
	conns   map[*conn]struct{}
	dropped int
}

// faults are those in force.
type faults struct {
	delay    time.Duration
	hole     Direction
	refuse   bool
	drop     *dropRule
	matching func([]byte) bool
}

// dropRule is what DropReplyTo asked for.
type dropRule struct {
	left int
	then Then
	to   func([]byte) bool // nil for any reply
}

// New starts a proxy before target, "host:port", on a free loopback port.
// Nothing is dialled until a client connects. The caller must Close it.
func New(target string) (*Proxy, error) {
	addr, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		return nil, fmt.Errorf("proxy: target: %w", err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	open, end := context.WithCancel(context.Background())
	p := &Proxy{
		target:   addr.AddrPort(),
		listener: listener,
		open:     open,
		end:      end,
		changed:  make(chan struct{}),
		conns:    make(map[*conn]struct{}),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Start is [New] for a test: the proxy is closed when tb ends.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := New(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the address for clients, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Turn has new connections go to another target, "host:port". The open ones
// stay where they are, as behind a Service of Kubernetes or a name in DNS.
func (p *Proxy) Turn(target string) error {
	addr, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		return fmt.Errorf("proxy: target: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr.AddrPort()
	return nil
}

func (p *Proxy) aim() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Conns returns how many connections are open.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Dropped returns how many replies DropReply, DropReplyTo and DropMatching have
// dropped so far. What a muted connection swallows afterwards does not count.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// change changes the faults, and wakes those who wait for one to end.
func (p *Proxy) change(f func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
}

// now returns the faults in force and a channel that is closed when they
// change.
func (p *Proxy) now() (faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

// Delay makes all that arrives at the proxy from now on leave it d
// later, each way, in order. It limits no throughput. 0 ends it.
func (p *Proxy) Delay(d time.Duration) { p.change(func(f *faults) { f.delay = d }) }

// Blackhole holds back all that goes in direction dir, the end of a connection
// included; it replaces an earlier call's dir. Clients still connect, since the
// proxy is near, but hear nothing.
func (p *Proxy) Blackhole(dir Direction) { p.change(func(f *faults) { f.hole = dir }) }

// Heal ends a blackhole; what it held back is delivered now, as TCP
// does after a partition that was short.
func (p *Proxy) Heal() { p.change(func(f *faults) { f.hole = 0 }) }

// HealReset ends a blackhole, drops what it held back, and resets every
// connection, as after a partition so long that TCP has given up.
func (p *Proxy) HealReset() {
	p.Reset() // first, so that nothing slips through in between
	p.Heal()
}

// Reset resets all connections, on both sides; bytes on their way are lost. New
// ones are welcome.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.abort()
	}
}

// Refuse resets each new connection at once while it is on; the open ones stay:
// see Reset. The port is kept meanwhile, so that no other process takes it; for
// a port that refuses, kill the server.
func (p *Proxy) Refuse(on bool) { p.change(func(f *faults) { f.refuse = on }) }

// DropReply drops the next n replies, whatever their connections; each
// connection it happens on is dealt with by then. RESP3 pushes don't count,
// but RESP2's messages to subscribers can't be told from replies. 0 ends it.
func (p *Proxy) DropReply(n int, then Then) { p.DropReplyTo(nil, n, then) }

// DropReplyTo is DropReply for the replies to requests that match says yes to,
// such as those that contain a key's name. match is given one whole request,
// and may be called concurrently; nil matches all. The request has taken effect
// by the time that its reply is dropped, and replies to earlier requests on the
// connection still arrive. It replaces an earlier rule. It needs RESP, and does
// not work on a RESP2 connection that has subscribed to something.
func (p *Proxy) DropReplyTo(match func(request []byte) bool, n int, then Then) {
	p.change(func(f *faults) {
		f.drop = nil
		if n > 0 {
			f.drop = &dropRule{left: n, then: then, to: match}
		}
	})
}

// DropMatching drops each reply or pushed message that match says yes to, and
// leaves its connection as it is: meant for messages to subscribers, since a
// client waits for its reply in vain. match may be called concurrently; nil
// ends it.
func (p *Proxy) DropMatching(match func(reply []byte) bool) {
	p.change(func(f *faults) { f.matching = match })
}

// spend takes one reply off a rule and reports whether there was one left.
func (p *Proxy) spend(r *dropRule) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.left == 0 {
		return false
	}
	r.left--
	return true
}

func (p *Proxy) countDropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

// Close ends the proxy and resets its connections. It returns when no
// goroutine of it is left. Closing it again does nothing.
func (p *Proxy) Close() {
	p.end()
	_ = p.listener.Close() // fails only if it is closed already
	p.Reset()
	p.running.Wait()
}
