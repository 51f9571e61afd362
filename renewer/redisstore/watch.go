package redisstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// hub shares subscriptions among all watches of a store: one, or one to each server of a cluster.
// Callers only note what they want under mu, and never wait for the network; a goroutine for each
// line, which lives while there is something to watch on it, makes it so (see line.go).
//
// wake is called with mu free, so that it may call stop, Watch and Close.
type hub struct {
	client   rueidis.Client
	topology *topology.Topology // of a cluster; nil otherwise
	timeout  time.Duration      // of one request on a subscription
	lineup   lineup

	n      atomic.Int64 // topics
	mu     sync.Mutex
	topics map[string]*topic // what is wanted, by channel, or was a moment ago
	// by the server's address; "" without a cluster, or when it is not known
	lines  map[string]*line
	closed bool
}

// topic is a channel with at least one watch.
type topic struct {
	name    string      // of the lock
	line    *line       // that it is on
	watches []*watch    // replaced, never changed, so that it can be walked with mu free
	live    bool        // the server has confirmed the subscription on the present connection
	heard   int         // messages and confirmations
	asked   int         // heard when somebody last asked for a place in the lock's line
	missed  bool        // somebody's turn was told, and nobody watched
	lingers *time.Timer // ends the subscription; nil while there are watches
}

type watch struct {
	wake    func(error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
}

func newHub(client rueidis.Client, slots *topology.Topology, timeout time.Duration) *hub {
	h := &hub{
		client: client, topology: slots, timeout: timeout,
		topics: make(map[string]*topic), lines: make(map[string]*line),
	}
	if slots != nil {
		slots.OnChange(h.reroute)
	}
	return h
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
		h.n.Store(int64(len(h.topics)))
		h.place(channel, t)
	}
	if t.lingers != nil {
		t.lingers.Stop()
		t.lingers = nil
	}
	t.watches = append(slices.Clone(t.watches), w)
	// What was told since somebody asked for a place in the line may
	// have been told to w. If nothing was, the wait begins.
	if t.live && (t.missed || t.asked != t.heard) {
		t.line.fresh = append(t.line.fresh, w)
		t.line.nudge()
	}
	t.missed = false
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
		// the next waiter often comes soon
		t.lingers = time.AfterFunc(linger, func() { h.drop(channel, t) })
	}
}

// drop ends a subscription that nobody has come back to.
func (h *hub) drop(channel string, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics[channel] != t || len(t.watches) > 0 {
		return
	}
	delete(h.topics, channel)
	h.n.Store(int64(len(h.topics)))
	h.take(channel, t)
}

// enter notes claims that are about to be sent, for names that others
// are known to want: they ask for a place in the line.
func (h *hub) enter(prefix string, claims []renewer.Claim) {
	if h.n.Load() == 0 {
		return
	}
	for i := range claims {
		if claims[i].Queue {
			h.enterOne(leaseKey(prefix, claims[i].Name)+freedSuffix, claims[i].Owner)
		}
	}
}

func (h *hub) enterOne(channel, owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[channel]; t != nil {
		t.asked = t.heard
		h.lineup.add(owner)
	}
}

// place puts a topic on the line to the server where its channel is
// published, and begins one if there is none. Under mu.
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
	if h.topology == nil {
		return ""
	}
	return h.topology.Addr(slotOf(name))
}

// reroute moves the topics whose servers have changed to where they are published now.
func (h *hub) reroute() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for channel, t := range h.topics {
		if h.addr(t.name) != t.line.addr {
			h.take(channel, t)
			h.place(channel, t)
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, t := range h.topics {
		if t.lingers != nil {
			t.lingers.Stop()
		}
	}
	for _, l := range h.lines {
		l.cancel()
	}
}
