package proxy

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection and the one to the target that goes with it.
type conn struct {
	p              *Proxy
	client, server *net.TCPConn
	gone           chan struct{} // closed with the connections
	once           sync.Once

	// requests that get a reply; belongs to the goroutine that reads the client
	asked    int
	answered int                    // replies; belongs to the goroutine that reads the server
	victim   atomic.Pointer[victim] // the reply to drop, once its request has come by
	mute     atomic.Bool            // drop all that the server sends
}

// piece is some bytes on their way, or what happens to the connection after
// them.
type piece struct {
	data  []byte
	due   time.Time
	reset bool // dst is reset
	end   bool // src has ended
}

// maxQueue bounds the pieces on their way in one direction; beyond
// it, the sender feels back-pressure.
const maxQueue = 4096

// accept takes clients until Close, or until the system can give no
// more sockets; then clients are refused rather than left to hang.
func (p *Proxy) accept() {
	defer func() { _ = p.listener.Close() }() // closed already, after Close
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve connects one client.
func (p *Proxy) serve(client *net.TCPConn) {
	if f, _ := p.now(); f.refuse {
		reset(client)
		return
	}
	server, err := new(net.Dialer).DialTCP(p.open, "tcp", netip.AddrPort{}, p.aim())
	if err != nil {
		reset(client)
		return
	}
	c := &conn{p: p, client: client, server: server, gone: make(chan struct{})}
	if !p.add(c) {
		c.abort()
		return
	}
	c.run()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// add puts c on the books, unless the proxy is closed, or has begun to refuse
// while c was made: a Reset has missed it.
func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open.Err() != nil || p.faults.refuse {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// run passes bytes until both directions have ended.
func (c *conn) run() {
	up, down := make(chan piece, maxQueue), make(chan piece, maxQueue)
	var ways sync.WaitGroup
	ways.Go(func() { c.read(c.client, up, c.request) })
	ways.Go(func() { c.write(c.server, up, Up) })
	ways.Go(func() { c.read(c.server, down, c.reply) })
	ways.Go(func() { c.write(c.client, down, Down) })
	ways.Wait()
	c.once.Do(func() { // in good order: a reset would destroy what the kernel has not sent yet
		close(c.gone)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

// abort resets both sides at once.
func (c *conn) abort() {
	c.once.Do(func() {
		close(c.gone)
		reset(c.client)
		reset(c.server)
	})
}

// reset closes a connection so that the other end gets an RST.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // both fail only if it is closed already
	_ = conn.Close()
}

// read queues what arrives from src, judged frame by frame, until src ends.
func (c *conn) read(
	src *net.TCPConn, queue chan<- piece, judge func(frame []byte, f *faults) verdict,
) {
	var cut framer
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		frames := cut.push(buf[:n])
		if err != nil {
			frames = append(frames, cut.rest()...)
		}
		f, _ := c.p.now()
		next := piece{due: time.Now().Add(f.delay), end: err != nil}
		for _, frame := range frames {
			switch judge(frame, &f) {
			case pass:
				next.data = append(next.data, frame...)
			case dropAndReset:
				next.reset = true
			case drop:
			}
		}
		if len(next.data) > 0 || next.reset || next.end {
			select {
			case queue <- next:
			case <-c.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// write sends what is queued to dst, each piece when it is due and no blackhole
// holds it.
func (c *conn) write(dst *net.TCPConn, queue <-chan piece, dir Direction) {
	for {
		var next piece
		select {
		case next = <-queue:
		case <-c.gone:
			return
		}
		if !c.hold(next.due, dir) {
			return
		}
		if len(next.data) > 0 {
			if _, err := dst.Write(next.data); err != nil {
				c.abort()
				return
			}
		}
		if next.reset {
			reset(dst)
		}
		if next.end {
			_ = dst.CloseWrite() // fails if dst has gone, and then it knows
			return
		}
	}
}

// hold waits until due and the end of any blackhole, whichever is
// later. It reports false if the connection is gone.
func (c *conn) hold(due time.Time, dir Direction) bool {
	for {
		f, changed := c.p.now()
		var timer *time.Timer
		var after <-chan time.Time
		if f.hole&dir == 0 {
			wait := time.Until(due)
			if wait <= 0 {
				return true
			}
			timer = time.NewTimer(wait)
			after = timer.C
		}
		select {
		case <-after:
		case <-changed:
		case <-c.gone:
			return false
		}
		if timer != nil {
			timer.Stop()
		}
	}
}
