package redisstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// hub shares one subscription among all watches of a store. Callers only note what they want under mu, and never wait for the
// network; one goroutine, which lives while there is something to watch, makes it so (see session.go).
//
// wake is called with mu free, so that it may call stop, Watch and Close.
type hub struct {
	client  rueidis.Client
	timeout time.Duration // of one request on the subscription
	kick    chan struct{} // holds one element while the goroutine has something new to look at

	mu      sync.Mutex
	topics  map[string]*topic   // what is wanted, by channel
	changed map[string]struct{} // channels that came or went since the goroutine last looked
	fresh   []*watch            // begun on a channel that is subscribed already: due one wake-up
	current *session            // the connection whose events count, or nil
	cancel  context.CancelFunc  // ends the goroutine; nil when there is none
	closed  bool
}

// topic is a channel with at least one watch.
type topic struct {
	watches []*watch // replaced, never changed, so that it can be walked with mu free
	live    bool     // the server has confirmed the subscription on the present connection
}

type watch struct {
	wake    func(error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
}

func newHub(client rueidis.Client, timeout time.Duration) *hub {
	return &hub{
		client: client, timeout: timeout, kick: make(chan struct{}, 1),
		topics: make(map[string]*topic), changed: make(map[string]struct{}),
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

func (h *hub) watch(channel string, wake func(error)) (stop func()) {
	w := &watch{wake: wake}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		go w.call(errClosed) // not from here: the caller may hold what wake needs
		return func() { w.stopped.Store(true) }
	}
	t := h.topics[channel]
	if t == nil {
		t = &topic{}
		h.topics[channel] = t
		h.changed[channel] = struct{}{}
	}
	t.watches = append(slices.Clone(t.watches), w)
	if t.live {
		h.fresh = append(h.fresh, w)
	}
	if h.cancel == nil {
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(context.Background())
		go h.run(ctx)
	}
	h.nudge()
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
		h.changed[channel] = struct{}{}
		h.nudge()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.cancel != nil {
		h.cancel()
	}
}

func (h *hub) nudge() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// tell gives every watch the error.
func (h *hub) tell(err error) {
	h.mu.Lock()
	var all []*watch
	for _, t := range h.topics {
		all = append(all, t.watches...)
	}
	h.mu.Unlock()
	for _, w := range all {
		w.call(err)
	}
}

// finished lets the goroutine end if nothing is watched any more, or the store is closed. A watch that begins after this starts
// another.
func (h *hub) finished() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && len(h.topics) > 0 {
		return false
	}
	h.cancel()
	h.cancel = nil
	return true
}

func (h *hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics) == 0
}
