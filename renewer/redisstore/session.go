package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

const (
	// linger is how long the connection is kept when nothing is watched, as the next waiter often comes soon.
	linger = time.Second
	// Between these the pause before a new connection doubles.
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
	// maxChannels bounds one SUBSCRIBE, so that a request stays small.
	maxChannels = 100
)

var errEnded = errors.New("the connection has ended")

// session is one connection of the subscription, from dialling to its end. It is the goroutine's own, but for live.
type session struct {
	subscribed map[string]struct{} // channels asked for
	live       bool                // something was confirmed; guarded by hub.mu
}

// run keeps a subscription to what is watched until nothing is.
func (h *hub) run(ctx context.Context) {
	pause := minPause
	for {
		live, err := h.serve(ctx)
		if ctx.Err() != nil {
			err = errClosed
		}
		if err != nil {
			h.tell(err)
		}
		if h.finished() {
			return
		}
		if err == nil {
			continue // was idle, but for a watch that has just begun
		}
		if live {
			pause = minPause
		}
		// Jitter, lest all processes come back to a restarted server at once.
		h.wait(ctx, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, maxPause)
	}
}

// wait returns after d, or when there is nothing left to wait for.
func (h *hub) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-h.kick:
			if h.idle() {
				return
			}
		}
	}
}

// serve opens one connection and uses it until it fails, or nothing has been watched for a while, which is no error. It tells
// whether the server confirmed anything.
func (h *hub) serve(ctx context.Context) (live bool, err error) {
	// Dedicate takes no context: it dials for as long as Dialer.Timeout says. Nobody waits for this goroutine.
	conn, _ := h.client.Dedicate() // Close gives it back too
	defer conn.Close()             // rather than into the client's pool, where it would stay open unused
	s := &session{subscribed: make(map[string]struct{})}
	h.begin(s)
	over := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { h.dispatch(s, m.Channel, false) },
		OnSubscription: func(e rueidis.PubSubSubscription) {
			if e.Kind == "subscribe" {
				h.dispatch(s, e.Channel, true)
			}
		},
	})
	if err = h.follow(ctx, conn, s, over); err != nil {
		err = fmt.Errorf("redisstore: watch: %w", err)
	}
	return h.end(s), err
}

// follow does on the connection what watches ask for, as they come and go.
func (h *hub) follow(ctx context.Context, conn rueidis.DedicatedClient, s *session, over <-chan error) error {
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		if err := h.update(ctx, conn, s); err != nil {
			return err
		}
		if h.idle() {
			idle.Reset(linger)
		} else {
			idle.Stop()
		}
		select {
		case <-h.kick:
		case <-idle.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-over:
			if err == nil {
				err = errEnded
			}
			return err
		}
	}
}

// update subscribes to what came, gives up what went, and wakes those who came to what was there already.
func (h *hub) update(ctx context.Context, conn rueidis.DedicatedClient, s *session) error {
	come, gone, fresh := h.changes(s)
	for part := range slices.Chunk(come, maxChannels) {
		if err := h.send(ctx, conn, conn.B().Subscribe().Channel(part...).Build()); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(gone, maxChannels) {
		if err := h.send(ctx, conn, conn.B().Unsubscribe().Channel(part...).Build()); err != nil {
			return err
		}
	}
	for _, w := range fresh {
		w.call(nil)
	}
	return nil
}

func (h *hub) send(ctx context.Context, conn rueidis.DedicatedClient, cmd rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return conn.Do(ctx, cmd).Error()
}

// changes compares what is wanted with what the session has.
func (h *hub) changes(s *session) (come, gone []string, fresh []*watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.changed {
		_, have := s.subscribed[channel]
		switch _, want := h.topics[channel]; {
		case want && !have:
			come = append(come, channel)
			s.subscribed[channel] = struct{}{}
		case !want && have:
			gone = append(gone, channel)
			delete(s.subscribed, channel)
		case want:
			// Gone and come again before anybody looked: still subscribed, so that no confirmation will come.
			t := h.topics[channel]
			t.live = true
			fresh = append(fresh, t.watches...)
		}
	}
	clear(h.changed)
	fresh = append(fresh, h.fresh...)
	h.fresh = nil
	return come, gone, fresh
}

// begin makes s the session whose events count, with everything yet to be subscribed.
func (h *hub) begin(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = s
	for channel := range h.topics {
		h.changed[channel] = struct{}{}
	}
}

func (h *hub) end(s *session) (live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current, h.fresh = nil, nil
	for _, t := range h.topics {
		t.live = false
	}
	clear(h.changed) // the next session begins with all
	return s.live
}

// dispatch wakes the watches of a channel: it was published on, or its subscription confirmed. It runs on the connection's
// reading goroutine.
func (h *hub) dispatch(s *session, channel string, confirmed bool) {
	h.mu.Lock()
	t := h.topics[channel]
	if h.current != s || t == nil {
		h.mu.Unlock()
		return
	}
	if confirmed {
		t.live, s.live = true, true
	}
	watches := t.watches
	h.mu.Unlock()
	for _, w := range watches {
		w.call(nil)
	}
}
