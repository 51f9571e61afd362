package redisstore

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// linger is how long the connection is kept when nothing is
	// watched, as the next waiter often comes soon.
	linger = time.Second
	// Between these the pause before a new connection doubles.
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// line is what is watched on one server. All but what begins it is guarded by hub.mu.
type line struct {
	hub    *hub
	addr   string        // of the server; "" without a cluster
	kick   chan struct{} // holds one element while the goroutine has something new to look at
	cancel context.CancelFunc

	topics    map[string]*topic   // what is wanted here, by channel
	changed   map[string]struct{} // channels that came or went since the goroutine last looked
	withdrawn map[string]struct{} // channels whose subscription the server has ended since
	fresh     []*watch            // begun on a channel that is subscribed already: due one wake-up
	current   *session            // the connection whose events count, or nil
}

func newLine(h *hub, addr string) *line {
	return &line{
		hub: h, addr: addr, kick: make(chan struct{}, 1),
		topics: make(map[string]*topic), changed: make(map[string]struct{}),
		withdrawn: make(map[string]struct{}),
	}
}

// run keeps a subscription to what is watched until nothing is.
func (l *line) run(ctx context.Context) {
	pause := minPause
	for {
		live, err := l.serve(ctx)
		if ctx.Err() != nil {
			err = errClosed
		}
		if err != nil {
			l.tell(err)
		}
		if err != nil && ctx.Err() == nil && l.hub.topology != nil {
			l.hub.topology.Learn(ctx) // the server may have lost its slots, also by failing
		}
		if l.finished() {
			return
		}
		if err == nil {
			// was idle, but for a watch that has just begun; or its
			// server is not the primary any more
			continue
		}
		if live {
			pause = minPause
		}
		// Jitter, lest all processes come back to a restarted server at once.
		l.wait(ctx, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, maxPause)
	}
}

// wait returns after d, or when there is nothing left to wait for.
func (l *line) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-l.kick:
			if l.idle() {
				return
			}
		}
	}
}

func (l *line) nudge() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// tell gives every watch the error.
func (l *line) tell(err error) {
	l.hub.mu.Lock()
	var all []*watch
	for _, t := range l.topics {
		all = append(all, t.watches...)
	}
	l.hub.mu.Unlock()
	for _, w := range all {
		w.call(err)
	}
}

// finished lets the goroutine end if nothing is watched any more, or the
// store is closed. A watch that begins after this begins another line.
func (l *line) finished() bool {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && len(l.topics) > 0 {
		return false
	}
	l.cancel()
	delete(h.lines, l.addr)
	return true
}

func (l *line) idle() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return len(l.topics) == 0
}

// changes compares what is wanted with what the session has.
func (l *line) changes(s *session) (come, gone []string, fresh []*watch) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	for channel := range l.withdrawn {
		delete(s.subscribed, channel)
		l.changed[channel] = struct{}{}
	}
	clear(l.withdrawn)
	for channel := range l.changed {
		_, have := s.subscribed[channel]
		switch t, want := l.topics[channel]; {
		case want && !have:
			come = append(come, channel)
			s.subscribed[channel] = struct{}{}
		case !want && have:
			gone = append(gone, channel)
			delete(s.subscribed, channel)
		case want:
			// Gone and come again before anybody looked: still
			// subscribed, so that no confirmation will come.
			t.live = true
			fresh = append(fresh, t.watches...)
		}
	}
	clear(l.changed)
	fresh = append(fresh, l.fresh...)
	l.fresh = nil
	return come, gone, fresh
}

// begin makes s the session whose events count, with everything yet to be subscribed.
func (l *line) begin(s *session) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.current = s
	for channel := range l.topics {
		l.changed[channel] = struct{}{}
	}
}

func (l *line) end(s *session) (live bool) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.current, l.fresh = nil, nil
	for _, t := range l.topics {
		t.live = false
	}
	clear(l.changed) // the next session begins with all
	clear(l.withdrawn)
	return s.live
}

// dispatch wakes the watches of a channel: it was published on, or its subscription
// confirmed. A message that names whose turn it is wakes nobody else but, in case that one
// is dead, the next, when its time is over. It runs on the connection's reading goroutine.
func (l *line) dispatch(s *session, channel, message string, confirmed bool) {
	l.hub.mu.Lock()
	t := l.topics[channel]
	if l.current != s || t == nil {
		l.hub.mu.Unlock()
		return
	}
	if confirmed {
		t.live, s.live = true, true
	}
	watches := t.watches
	turn := l.hub.lineup.turn(message)
	if turn != theirs {
		t.heard++
		t.missed = turn == ours && len(watches) == 0
	}
	l.hub.mu.Unlock()
	switch turn {
	case theirs:
	case next:
		time.AfterFunc(turnTime, func() { wakeAll(watches) })
	default:
		wakeAll(watches)
	}
}

func wakeAll(watches []*watch) {
	for _, w := range watches {
		w.call(nil)
	}
}

// withdraw notes that a subscription has ended: at our wish, or
// because the channel's slot has left the server.
func (l *line) withdraw(s *session, channel string) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if t := l.topics[channel]; l.current == s && t != nil {
		t.live = false
		l.withdrawn[channel] = struct{}{}
		l.nudge()
	}
}

// astray tells whether the server has ended a subscription that is wanted.
func (l *line) astray() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return len(l.withdrawn) > 0
}
