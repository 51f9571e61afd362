// Package subscription keeps the one subscription that a process has of its
// own: one connection to a server, or one to each server of a cluster, on which
// the process can be told what happens to locks that it does not hold.
//
// What it promises: from when a watch begins until it is stopped, every message
// on its channel for this process wakes it. While there is no subscription (at
// first, after a lost connection, after a move to another server) messages pass
// unheard; so a watch is woken once when there is one again.
//
// A subscription ends with its connection, never by itself: when nothing is
// watched, or when much that is subscribed to is not watched any more.
//
// It knows channels and messages, and no lock. What a message means is the
// caller's to say.
//
// The files, from the caller down to the wire:
//
//	subscriber.go  Subscriber: what is watched, and on which server
//	session.go     the goroutine of a server, which keeps a connection while anything is watched;
//	               one connection, from dialling to its end; a channel and its watches
//	server.go      what is wanted on a server, and what its connection has
//
// Callers only note what they want, under one mutex (Subscriber.mu, which
// guards servers, channels and watches too), and never wait for the network.
// Watches are called with it free.
package subscription

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// Subscriber shares subscriptions among all watches of a process. It may be
// used concurrently.
type Subscriber struct {
	config Config

	n        atomic.Int64 // channels
	mu       sync.Mutex
	channels map[string]*channel // by name
	servers  map[string]*server  // those with a loop, by address; "" where that is not known
	closed   bool
}

// New returns a subscriber without watches, which needs no connection yet. It
// registers itself with the topology, for whose OnChange it must be the only
// caller.
func New(config Config) *Subscriber {
	s := &Subscriber{
		config: config, channels: make(map[string]*channel), servers: make(map[string]*server),
	}
	if config.Topology != nil {
		config.Topology.OnChange(s.reroute)
	}
	return s
}

// Watch calls hear for every message on a channel; with "" for one, when the
// subscription works and a message may have been missed before; and with an
// error when the subscription has failed, once until it works again, or when
// the subscriber is closed. Neither Watch nor hear nor stop waits for the
// network, and hear may call all methods of the Subscriber.
//
// A call of hear that has begun when stop is called may still run when stop
// returns. More calls of stop than one do nothing.
func (s *Subscriber) Watch(name string, hear func(message string, err error)) (stop func()) {
	w := &watch{hear: hear}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go w.call("", ErrClosed) // not from here: the caller may hold what hear needs
		return func() { w.stopped.Store(true) }
	}
	c := s.channels[name]
	if c == nil {
		c = &channel{}
		s.channels[name] = c
		s.n.Store(int64(len(s.channels)))
		s.place(name, c)
	}
	if missed := c.add(w); missed {
		s.servers[c.addr].wakeOnce(w)
	}
	return func() { s.stop(name, w) }
}

func (s *Subscriber) stop(name string, w *watch) {
	if w.stopped.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[name]; !s.closed && c.remove(w) {
		c.lingers = time.AfterFunc(linger, func() { s.forget(name, c) })
	}
}

// forget gives up a channel that has not been watched again.
func (s *Subscriber) forget(name string, c *channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.channels[name] != c || len(c.watches) > 0 {
		return
	}
	delete(s.channels, name)
	s.n.Store(int64(len(s.channels)))
	s.servers[c.addr].drop(name)
}

// Watching reports whether any channel is watched, or was a moment ago. It is
// cheap.
func (s *Subscriber) Watching() bool { return s.n.Load() != 0 }

// Mark marks what was heard on a channel until now as known: no later watch is
// woken for what came before. It reports whether the channel is watched, or was
// a moment ago.
func (s *Subscriber) Mark(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[name]
	if c == nil {
		return false
	}
	c.marked = c.heard
	return true
}

// Close ends all subscriptions, and does not wait for that. Watches
// hear of it by [ErrClosed], once. More calls than one do nothing.
func (s *Subscriber) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, c := range s.channels {
		if c.lingers != nil {
			c.lingers.Stop()
		}
	}
	for _, one := range s.servers {
		one.cancel()
	}
}

// place has a channel subscribed to on the server where it is published, and
// begins the loop of that server if there is none. Under mu.
func (s *Subscriber) place(name string, c *channel) {
	c.addr, c.live = s.addr(name), false
	to := s.servers[c.addr]
	if to == nil {
		to = s.begin(c.addr)
	}
	to.want(name, c)
}

// begin begins the loop of a server. Under mu.
func (s *Subscriber) begin(addr string) *server {
	to := newServer(&s.mu)
	s.servers[addr] = to
	var ctx context.Context
	ctx, to.cancel = context.WithCancel(context.Background())
	l := &loop{config: &s.config, server: to, addr: addr, ended: func() bool {
		return s.end(addr, to)
	}}
	go l.run(ctx)
	return to
}

// end lets the loop of a server end if nothing is watched there any more, or if
// the subscriber is closed. A watch that begins after this begins another loop.
func (s *Subscriber) end(addr string, to *server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && len(to.channels) > 0 {
		return false
	}
	to.cancel()
	delete(s.servers, addr)
	return true
}

// addr is where a channel is published.
func (s *Subscriber) addr(name string) string {
	if s.config.Topology == nil {
		return ""
	}
	return s.config.Topology.Addr(topology.SlotOf(name))
}

// reroute moves the channels whose servers have changed to where they are
// published now.
func (s *Subscriber) reroute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for name, c := range s.channels {
		if s.addr(name) != c.addr {
			s.servers[c.addr].drop(name)
			s.place(name, c)
		}
	}
}

// Config is what a [Subscriber] needs. All fields but Topology and Try are
// mandatory.
type Config struct {
	Client rueidis.Client
	// Topology is that of a cluster; nil for a single server.
	Topology *topology.Topology
	// Timeout bounds one request on a subscription.
	Timeout time.Duration
	// Try looks whether a fresh connection is of use; nil if that is not to be
	// asked. It is: an address may lead to a former primary, by which nothing
	// is published any more.
	Try func(context.Context, rueidis.DedicatedClient) error
}

// ErrClosed is what watches hear once the subscriber is closed.
var ErrClosed = errors.New("redisstore: watch: the store is closed; waiters go on by their own " +
	"timers")

// linger is how long a channel that is no longer watched is kept, and then a
// connection on which none is watched, as the next watch often comes soon.
const linger = time.Second
