package subscription

import (
	"context"
	"sync"
)

// server is what is wanted on one server, and what its connection has. All but
// the first three is guarded by mu.
type server struct {
	mu     *sync.Mutex        // Subscriber.mu
	kick   chan struct{}      // holds one element while the loop has something new to look at
	cancel context.CancelFunc // ends the loop

	channels  map[string]*channel // what is wanted here, by name
	changed   map[string]struct{} // names that came or went since the loop last looked
	withdrawn map[string]struct{} // names whose subscription the server has ended since
	unwoken   []*watch            // that are to be woken once, as they may have missed a message
	link      *link               // the connection whose events count, or nil
}

// link is what was asked for on one connection. It is guarded by server.mu.
type link struct {
	subscribed map[string]struct{} // by name; also what is not wanted any more
	live       bool                // the server has confirmed something
	vain       int                 // messages on channels that were not wanted any more
}

func newServer(mu *sync.Mutex) *server {
	return &server{
		mu: mu, kick: make(chan struct{}, 1),
		channels: make(map[string]*channel), changed: make(map[string]struct{}),
		withdrawn: make(map[string]struct{}),
	}
}

// want has a channel subscribed to. Under mu.
func (s *server) want(name string, c *channel) {
	s.channels[name] = c
	s.changed[name] = struct{}{}
	s.nudge()
}

// drop gives a channel up. It stays subscribed to for as long as the
// connection: see wasteful. Under mu.
func (s *server) drop(name string) {
	delete(s.channels, name)
	s.changed[name] = struct{}{}
	s.nudge()
}

// wakeOnce has the loop wake a watch. Under mu.
func (s *server) wakeOnce(w *watch) {
	s.unwoken = append(s.unwoken, w)
	s.nudge()
}

func (s *server) nudge() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// idle reports whether nothing is wanted.
func (s *server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.channels) == 0
}

// watches returns all watches on the server.
func (s *server) watches() (all []*watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.channels {
		all = append(all, c.watches...)
	}
	return all
}

// connect makes l the connection whose events count, with everything yet to be
// subscribed to.
func (s *server) connect(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	for name := range s.channels {
		s.changed[name] = struct{}{}
	}
}

// disconnect ends that, and reports whether the server had confirmed anything.
func (s *server) disconnect(l *link) (live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.unwoken = nil, nil
	for _, c := range s.channels {
		c.live = false
	}
	clear(s.changed) // the next connection begins with all
	clear(s.withdrawn)
	return l.live
}

// changes compares what is wanted with what the connection has: the names to
// subscribe to, the watches to be woken then, and whether the connection is to
// be replaced instead.
func (s *server) changes(l *link) (come []string, unwoken []*watch, wasteful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.withdrawn {
		delete(l.subscribed, name)
		s.changed[name] = struct{}{}
	}
	clear(s.withdrawn)
	for name := range s.changed {
		_, have := l.subscribed[name]
		switch c, want := s.channels[name]; {
		case want && !have:
			come = append(come, name)
			l.subscribed[name] = struct{}{}
		case want:
			// It went and came again: it is still subscribed to, so that no
			// confirmation will come.
			c.live = true
			unwoken = append(unwoken, c.watches...)
		}
	}
	clear(s.changed)
	unwoken = append(unwoken, s.unwoken...)
	s.unwoken = nil
	return come, unwoken, s.wasteful(l)
}

// heard notes a message, or that the server has confirmed a subscription, and
// returns the watches that are to hear of it: what was published before a
// confirmation, they have missed.
func (s *server) heard(l *link, name string, confirmed bool) []*watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[name]
	switch {
	case s.link != l:
		return nil
	case c == nil:
		l.vain++
		if s.wasteful(l) {
			s.nudge()
		}
		return nil
	}
	if confirmed {
		c.live, l.live = true, true
	}
	c.heard++
	return c.watches
}

// withdraw notes that the server has ended a subscription: the channel's slot
// has left it.
func (s *server) withdraw(l *link, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return
	}
	c := s.channels[name]
	if c == nil { // or it would pass for subscribed to when it is wanted again
		delete(l.subscribed, name)
		return
	}
	c.live = false
	s.withdrawn[name] = struct{}{}
	s.nudge()
}

// astray reports whether the server has ended a subscription that is wanted.
func (s *server) astray() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.withdrawn) > 0
}

// mostWaste is how much a connection may have of what nobody wants, beside as
// much as is wanted: channels that stay subscribed to, and messages on them.
const mostWaste = 1000

// wasteful reports whether a connection is to be replaced by one that has only
// what is wanted. So it costs a bounded amount of what comes and goes, however
// many names are waited for once; what is wanted is subscribed to anew, and
// woken, once for as many channels or messages in vain. Under mu.
func (s *server) wasteful(l *link) bool {
	return len(l.subscribed)+l.vain > 2*len(s.channels)+mostWaste
}
