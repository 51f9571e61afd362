package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// How long the connection is kept when no lock is taken and none held.
	trackFor = time.Minute
	// withTracking is the argument by which a renewal has the server watch the leases for this connection.
	withTracking = "track"
)

var trackArgs = []string{withTracking}

// tracker has the server tell at once of leases that somebody else has deleted or overwritten, by CLIENT TRACKING on a connection of
// its own. The server watches what is read on that connection, until it is next written; so heartbeats travel on it and read the
// leases after renewing them, in the same script. NOLOOP keeps the server from telling us of that. It needs a server that knows PEXPIRE ... GT,
// Redis 7: one that has to look at each TTL by itself while it tracks takes three times as long.
//
// It is a convenience: what it says is a reason to ask, and believed no further. Without it, or while it is down, heartbeats travel on
// the client's connection and tell of a loss themselves.
type tracker struct {
	client  rueidis.Client
	prefix  string
	timeout time.Duration // of one request

	conn atomic.Pointer[tracked] // nil while there is none

	running atomic.Bool
	used    atomic.Int64 // when it was last wanted, by the Unix time in s
	mu      sync.Mutex
	guards  map[int]guard
	next    int
	refused bool // by the server, for good
	closed  bool
	ended   chan struct{} // closed by close
}

// guard is somebody to be told.
type guard struct {
	values  context.Context //nolint:containedctx // of requests that nobody waits for
	changed func(name string)
}

// tracked is a connection that is tracked.
type tracked struct {
	rueidis.DedicatedClient

	failed  atomic.Bool
	dropped chan struct{} // closed when it is given up
}

func newTracker(client rueidis.Client, prefix string, timeout time.Duration) *tracker {
	return &tracker{
		client: client, prefix: prefix, timeout: timeout,
		guards: make(map[int]guard), ended: make(chan struct{}),
	}
}

// guard has changed called with the name of a lock whose lease has changed, or with "" if any may have.
func (t *tracker) guard(ctx context.Context, changed func(name string)) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.next
	t.next++
	t.guards[id] = guard{context.WithoutCancel(ctx), changed}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.guards, id)
		if c := t.conn.Load(); c != nil && len(t.guards) == 0 {
			t.drop(c)
		}
	}
}

// want has a connection opened if there is none, and somebody is to be told.
func (t *tracker) want() {
	t.used.Store(time.Now().Unix())
	if t.running.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running.Load() && t.wanted() {
		t.running.Store(true)
		go t.run(t.values())
	}
}

// values are those of one of the guards, of whom there is one. Under mu.
func (t *tracker) values() context.Context {
	for _, g := range t.guards {
		return g.values
	}
	return context.Background()
}

// wanted tells whether the connection is of any use. Under mu.
func (t *tracker) wanted() bool {
	return !t.closed && !t.refused && len(t.guards) > 0 && time.Now().Unix()-t.used.Load() < int64(trackFor/time.Second)
}

// drop gives a connection up, as a heartbeat on it has failed, or nobody is to be told any more.
func (t *tracker) drop(c *tracked) {
	t.conn.CompareAndSwap(c, nil)
	if !c.failed.Swap(true) {
		close(c.dropped)
	}
}

func (t *tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		close(t.ended)
	}
}

// run keeps a connection for as long as there are heartbeats.
func (t *tracker) run(ctx context.Context) {
	pause := minPause
	for {
		begun := time.Now()
		t.serve(ctx)
		if t.finished() {
			return
		}
		if time.Since(begun) > maxPause {
			pause = minPause
		}
		// Jitter, lest all processes come back to a restarted server at once.
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-t.ended:
			timer.Stop()
		}
		pause = min(2*pause, maxPause)
	}
}

// finished lets the goroutine end if nobody needs the connection any more.
func (t *tracker) finished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted() {
		return false
	}
	t.running.Store(false)
	return true
}

// serve opens one connection and keeps it until it fails or nobody needs it.
func (t *tracker) serve(ctx context.Context) {
	conn, _ := t.client.Dedicate() // Close gives it back too
	defer conn.Close()
	c := &tracked{DedicatedClient: conn, dropped: make(chan struct{})}
	over := conn.SetOnInvalidations(t.told)
	if !t.begin(ctx, conn) {
		return
	}
	t.conn.Store(c)
	defer t.drop(c)
	t.tell("") // while there was no connection, anything may have happened; and what is asked now is watched from now on
	idle := time.NewTicker(trackFor / 2)
	defer idle.Stop()
	for {
		select {
		case <-over: //nolint:errcheck // why it has ended makes no difference
			return
		case <-c.dropped:
			return
		case <-t.ended:
			return
		case <-idle.C:
			if t.idle() {
				return
			}
		}
	}
}

// begin asks the server to track the connection. The client may have had it tracked in another mode.
func (t *tracker) begin(ctx context.Context, conn rueidis.DedicatedClient) bool {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	off := conn.B().ClientTracking().Off().Build()
	on := conn.B().ClientTracking().On().Noloop().Build()
	greater := conn.B().Pexpire().Key(t.prefix + "{" + probeName + "}").Milliseconds(1).Gt().Build() // no such lease is there
	results := conn.DoMulti(ctx, off, on, greater)
	tracking, renewing := results[1].Error(), results[2].Error()
	var answer *rueidis.RedisError
	refused := errors.As(tracking, &answer) && !answer.IsLoading() // we may not, or the client speaks RESP2
	tooOld := errors.As(renewing, &answer) && strings.Contains(answer.Error(), "wrong number of arguments")
	if refused || tooOld {
		t.mu.Lock()
		t.refused = true
		t.mu.Unlock()
	}
	return tracking == nil && renewing == nil
}

func (t *tracker) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.wanted()
}

// told is what the server says has changed: keys, or nil if all may have. It runs on the connection's reading goroutine.
func (t *tracker) told(keys []rueidis.RedisMessage) {
	if keys == nil {
		t.tell("")
		return
	}
	for i := range keys {
		key, err := keys[i].ToString()
		if name, ok := nameOf(t.prefix, key); ok && err == nil {
			t.tell(name)
		}
	}
}

func (t *tracker) tell(name string) {
	t.mu.Lock()
	guards := make([]func(string), 0, 1)
	for _, g := range t.guards {
		guards = append(guards, g.changed)
	}
	t.mu.Unlock()
	for _, changed := range guards {
		changed(name)
	}
}
