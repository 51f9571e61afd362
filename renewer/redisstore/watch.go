package redisstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// hub shares subscriptions among all watches of a store: one, or one to each server of a cluster. Callers only note what they want
// under mu, and never wait for the network; a goroutine for each line, which lives while there is something to watch on it,
// makes it so (see line.go).
//
// wake is called with mu free, so that it may call stop, Watch and Close.
type hub struct {
	client  rueidis.Client
	shards  *shards       // of a cluster; nil otherwise
	timeout time.Duration // of one request on a subscription

	mu     sync.Mutex
	topics map[string]*topic // what is wanted, by channel
	lines  map[string]*line  // by the server's address; "" without a cluster, or when it is not known
	closed bool
}

// topic is a channel with at least one watch.
type topic struct {
	name    string   // of the lock
	line    *line    // that it is on
	watches []*watch // replaced, never changed, so that it can be walked with mu free
	live    bool     // the server has confirmed the subscription on the present connection
}

type watch struct {
	wake    func(error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
}

func newHub(client rueidis.Client, shards *shards, timeout time.Duration) *hub {
	return &hub{
		client: client, shards: shards, timeout: timeout,
		topics: make(map[string]*topic), lines: make(map[string]*line),
	}
}

func (w *watch) call(err error) {
	if w.stopped.Load() {
		return
	}
	if w.told.Swap(err != nil) && err != nil {
		return
	}
	w.wake(err)
}

func (h *hub) watch(name, channel string, wake func(error)) (stop func()) {
	w := &watch{wake: wake}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		go w.call(errClosed) // not from here: the caller may hold what wake needs
		return func() { w.stopped.Store(true) }
	}
	t := h.topics[channel]
	if t == nil {
		t = &topic{name: name}
		h.topics[channel] = t
		h.place(channel, t)
	}
	t.watches = append(slices.Clone(t.watches), w)
	if t.live {
		t.line.fresh = append(t.line.fresh, w)
	}
	t.line.nudge()
	return func() { h.stop(channel, w) }
}

func (h *hub) stop(channel string, w *watch) {
	if w.stopped.Swap(true) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil { // closed
		return
	}
	t.watches = slices.DeleteFunc(slices.Clone(t.watches), func(o *watch) bool { return o == w })
	if len(t.watches) == 0 {
		delete(h.topics, channel)
		h.take(channel, t)
	}
}

// place puts a topic on the line to the server where its channel is published, and begins one if there is none. Under mu.
func (h *hub) place(channel string, t *topic) {
	addr := h.addr(t.name)
	l := h.lines[addr]
	if l == nil {
		l = newLine(h, addr)
		h.lines[addr] = l
		var ctx context.Context
		ctx, l.cancel = context.WithCancel(context.Background())
		go l.run(ctx)
	}
	t.line = l
	l.topics[channel] = t
	l.changed[channel] = struct{}{}
	l.nudge()
}

// take takes a topic off its line. Under mu.
func (h *hub) take(channel string, t *topic) {
	delete(t.line.topics, channel)
	t.line.changed[channel] = struct{}{}
	t.line.nudge()
	t.line, t.live = nil, false
}

// addr is where a lock's channel is published.
func (h *hub) addr(name string) string {
	if h.shards == nil {
		return ""
	}
	return h.shards.addr(name)
}

// reroute moves topics of a line whose slots have moved to where they are published now.
func (h *hub) reroute(l *line) {
	if h.shards == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for channel, t := range l.topics {
		if h.addr(t.name) != l.addr {
			h.take(channel, t)
			h.place(channel, t)
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, l := range h.lines {
		l.cancel()
	}
}
