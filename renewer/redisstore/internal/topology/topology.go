// Package topology knows which server of a Redis cluster serves which slot, so
// that requests to different servers can travel apart.
//
// What it says is a hint. The client sends each request to the right server
// even if the hint is wrong; then that request only travels together with those
// to another server. So asking it never waits and never fails, and it learns
// behind the back of its callers.
package topology

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// A topology that was right may have changed without any request failing,
	// since the client follows the servers' redirections; so it is asked for
	// again after this time.
	maxAge = time.Minute
	// After a request that failed it is asked for at once, but no more often
	// than this.
	pause = time.Second
	// askTimeout is how long one server may take to tell it, until the next is
	// asked.
	askTimeout = 300 * time.Millisecond
)

// Topology is what is known of one cluster. It may be used concurrently.
type Topology struct {
	addrs func() []string // of the servers that the client knows, in an order that varies
	slots func(ctx context.Context, addr string) (rueidis.RedisMessage, error)

	changed func() // may be nil
	now     atomic.Pointer[layout]
	life    context.Context // after its end the servers are asked no more

	mu    sync.Mutex
	asked time.Time // when it was last asked for
	busy  bool      // whether Review is having it asked for
}

// New returns a topology of which nothing is known yet. It asks the servers of
// a client, in the background until life ends.
func New(life context.Context, client rueidis.Client) *Topology {
	return &Topology{
		life: life,
		addrs: func() []string {
			nodes := client.Nodes()
			addrs := make([]string, 0, len(nodes))
			for addr := range nodes {
				addrs = append(addrs, addr)
			}
			return addrs
		},
		slots: func(ctx context.Context, addr string) (rueidis.RedisMessage, error) {
			node := client.Nodes()[addr]
			if node == nil {
				return rueidis.RedisMessage{}, errUnknownServer
			}
			return node.Do(ctx, node.B().ClusterSlots().Build().ToPipe()).ToMessage()
		},
	}
}

var errUnknownServer = errors.New("the client does not know the server")

// OnChange has f called each time that a server has told the topology. It must
// be called before anything is asked.
func (t *Topology) OnChange(f func()) { t.changed = f }

// Shard returns the number of the primary that serves a slot, from 0; 0 for all
// slots while nothing is known. A primary keeps its number for as long as it
// serves any slot.
func (t *Topology) Shard(slot uint16) int {
	now := t.now.Load()
	if now == nil {
		return 0
	}
	return int(now.shards[slot])
}

// Addr returns the address of the primary that serves a slot, as the client
// names it; "" while nothing is known.
func (t *Topology) Addr(slot uint16) string {
	now := t.now.Load()
	if now == nil {
		return ""
	}
	return now.addrs[now.shards[slot]]
}

// Primaries returns the addresses of all primaries that serve slots, as the
// client names them; none while nothing is known.
func (t *Topology) Primaries() (addrs []string) {
	if now := t.now.Load(); now != nil {
		for _, addr := range now.addrs {
			if addr != "" {
				addrs = append(addrs, addr)
			}
		}
	}
	return addrs
}

// Review has the topology asked for anew in the background if it is old, or if
// a request has failed: then it may have changed.
func (t *Topology) Review(failed bool) {
	after := maxAge
	if failed || t.now.Load() == nil {
		after = pause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || time.Since(t.asked) < after || t.life.Err() != nil {
		return
	}
	t.busy = true
	go func() {
		t.Learn(t.life)
		t.mu.Lock()
		t.busy = false
		t.mu.Unlock()
	}()
}

// Learn asks the servers, one after the other, and returns when one has told,
// or when all have failed, or when ctx ends. It does not wait for a slow one:
// the client may have to dial that, which ends with the context of the first
// caller who needs it, and not with ours.
func (t *Topology) Learn(ctx context.Context) {
	t.mu.Lock()
	t.asked = time.Now()
	t.mu.Unlock()
	addrs := t.addrs()
	told := make(chan bool, len(addrs))
	next := time.NewTicker(askTimeout)
	defer next.Stop()
	asked := 0
	for _, addr := range addrs {
		go func() { told <- t.LearnFrom(ctx, addr) }()
		asked++
		next.Reset(askTimeout)
		select {
		case ok := <-told:
			if ok {
				return
			}
			asked--
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
	for ; asked > 0; asked-- {
		select {
		case ok := <-told:
			if ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// LearnFrom asks one server, for 300 ms at most, and reports whether it has
// told.
func (t *Topology) LearnFrom(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reply, err := t.slots(ctx, addr)
	if err != nil {
		return false
	}
	now, ok := readLayout(reply, addr, t.now.Load())
	if ok {
		t.now.Store(now)
		if t.changed != nil {
			t.changed()
		}
	}
	return ok
}
