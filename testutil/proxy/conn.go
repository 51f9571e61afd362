package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection and the one to the target that goes with it.
type conn struct {
	p              *Proxy
	client, server *net.TCPConn
	gone           chan struct{} // closed by abort
	once           sync.Once

	armed atomic.Pointer[dropRule] // set once a request is sent whose reply must be dropped
	mute  atomic.Bool              // drop all that the server sends
}

// piece is some bytes on their way, or the end of the stream.
type piece struct {
	data []byte
	due  time.Time
	arm  *dropRule // takes effect when the piece has been sent
	end  bool
}

// maxQueue bounds the pieces on their way in one direction; beyond it, the sender feels back-pressure.
const maxQueue = 4096

// accept takes clients until Close, or until the system can give no more sockets; then clients are refused rather than left
// to hang.
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
	target, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		reset(client)
		return
	}
	c := &conn{p: p, client: client, server: target.(*net.TCPConn), gone: make(chan struct{})}
	if !p.add(c) {
		c.abort()
		return
	}
	c.run()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// add puts c on the books, unless the proxy is closed.
func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
		p.conns[c] = struct{}{}
		return true
	}
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
	c.abort()
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

// read queues what arrives from src, filtered frame by frame, until src ends.
func (c *conn) read(src *net.TCPConn, queue chan<- piece, filter func(frame []byte, f *faults) (pass bool, arm *dropRule)) {
	var cut framer
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		frames := cut.push(buf[:n])
		if err != nil {
			frames = append(frames, cut.rest()...)
		}
		f, _ := c.p.now()
		next := piece{due: time.Now().Add(f.delay)}
		for _, frame := range frames {
			pass, arm := filter(frame, &f)
			if pass {
				next.data = append(next.data, frame...)
			}
			if arm != nil {
				next.arm = arm
			}
		}
		next.end = err != nil
		if len(next.data) > 0 || next.end {
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

// request looks at a request on its way up.
func (c *conn) request(frame []byte, f *faults) (pass bool, arm *dropRule) {
	if r := f.drop; r != nil && r.to != nil && r.to(frame) && c.p.spend(r) {
		return true, r
	}
	return true, nil
}

// reply looks at a reply on its way down.
func (c *conn) reply(frame []byte, f *faults) (pass bool, arm *dropRule) {
	if c.mute.Load() {
		return false, nil
	}
	if f.matching != nil && f.matching(frame) {
		c.p.countDropped()
		return false, nil
	}
	if isPush(frame) {
		return true, nil
	}
	r := c.armed.Load()
	if r == nil && f.drop != nil && f.drop.to == nil && c.p.spend(f.drop) {
		r = f.drop
	}
	if r == nil {
		return true, nil
	}
	c.p.countDropped()
	c.mute.Store(true)
	if r.then == ThenReset {
		// The server's side goes on until it has read everything, and its replies are dropped.
		reset(c.client)
	}
	return false, nil
}

// write sends what is queued to dst, each piece when it is due and no blackhole holds it.
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
			// Before the write, since the reply may be quicker than the next line; what is armed early drops too much at worst.
			if next.arm != nil {
				c.armed.Store(next.arm)
			}
			if _, err := dst.Write(next.data); err != nil && !c.mute.Load() {
				c.abort()
				return
			}
		}
		if next.end {
			_ = dst.CloseWrite() // fails if dst has gone, and then it knows
			return
		}
	}
}

// hold waits until due and the end of any blackhole, whichever is later. It reports false if the connection is gone.
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
