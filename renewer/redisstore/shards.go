package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// A topology that was right may have changed without any request failing,
	// since the client follows the servers' redirections; so it is asked for again
	// after this time, and then a little later than redirections were followed.
	topologyFor = time.Minute
	// After a request that failed it is asked for at once, but no more often than this.
	topologyPause = time.Second
	// How long one server may take to tell it, until the next is asked.
	topologyTimeout = 300 * time.Millisecond
)

// shards knows which server of a cluster has a lock, so that requests to
// different servers travel apart: the client would answer all of those that are
// sent together when the last server has answered. What it knows is a hint. If
// it is wrong the client still sends each request to the right server.
type shards struct {
	client  rueidis.Client
	learned func() // called when now has changed; set before the first question
	now     atomic.Pointer[topology]
	life    context.Context // ended by Store.Close

	mu    sync.Mutex
	asked time.Time // when it was last asked for
	busy  bool
}

func newShards(life context.Context, client rueidis.Client) *shards {
	return &shards{client: client, life: life}
}

// of returns the shard of a name; 0 for all while nothing is known.
func (s *shards) of(name string) int {
	t := s.now.Load()
	if t == nil {
		return 0
	}
	return int(t.shards[slotOf(name)])
}

// addr is the address of the primary that has a name, as the client
// names it; "" while nothing is known.
func (s *shards) addr(name string) string {
	t := s.now.Load()
	if t == nil {
		return ""
	}
	return t.addrs[t.shards[slotOf(name)]]
}

// learn asks the servers in random order until one tells. One that is slow is not waited for:
// rueidis may have to dial it, which does not end with ctx for all but the first who wants that.
func (s *shards) learn(ctx context.Context) {
	s.mu.Lock()
	s.asked = time.Now()
	s.mu.Unlock()
	nodes := s.client.Nodes()
	told := make(chan bool, len(nodes))
	next := time.NewTicker(topologyTimeout)
	defer next.Stop()
	asked := 0
	for addr, node := range nodes {
		go func() { told <- s.learnFrom(ctx, addr, node) }()
		asked++
		next.Reset(topologyTimeout)
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

func (s *shards) learnFrom(ctx context.Context, addr string, node rueidis.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	reply, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToMessage()
	if err != nil {
		return false
	}
	t, ok := readTopology(reply, addr, s.now.Load())
	if ok {
		s.now.Store(t)
		s.learned()
	}
	return ok
}

// review has the topology asked for anew in the background if it is
// old, or if a request has failed: then it may have changed.
func (s *shards) review(failed bool) {
	pause := topologyFor
	if failed || s.now.Load() == nil {
		pause = topologyPause
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || time.Since(s.asked) < pause || s.life.Err() != nil {
		return
	}
	s.busy = true
	go func() {
		s.learn(s.life)
		s.mu.Lock()
		s.busy = false
		s.mu.Unlock()
	}()
}
