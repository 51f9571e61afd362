package renewer_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// shardedStore has names on the shard that they begin with. Renewals on
// a shard that hangs are not answered, nor is what travels with them.
type shardedStore struct {
	*script.Store
	shard func(name string) int
	hung  atomic.Int64 // the shard; -1: none
	moved atomic.Int64 // where all names are; -1: where they should

	mu    sync.Mutex
	under map[int]int // heartbeats under way
	most  map[int]int
	mixed int
}

func (s *shardedStore) Engine() store.Store { return s }

func newShardedStore() *shardedStore {
	s := &shardedStore{Store: script.New(), shard: first, under: map[int]int{}, most: map[int]int{}}
	s.hung.Store(-1)
	s.moved.Store(-1)
	return s
}

// move has all names be on one shard from now on.
func (s *shardedStore) move(to int) { s.moved.Store(int64(to)) }

// first is the shard of "2:name".
func first(name string) int { return int(name[0] - '0') }

func (s *shardedStore) Shard(name string) int {
	if to := s.moved.Load(); to >= 0 {
		return int(to)
	}
	return s.shard(name)
}

func (s *shardedStore) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	hangs := false
	shard := first(holds[0].Name)
	s.mu.Lock()
	for _, h := range holds {
		if first(h.Name) != shard {
			s.mixed++
		}
		hangs = hangs || int64(first(h.Name)) == s.hung.Load()
	}
	s.under[shard]++
	s.most[shard] = max(s.most[shard], s.under[shard])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.under[shard]--
		s.mu.Unlock()
	}()
	if hangs {
		<-ctx.Done()
		return make([]store.Answer, len(holds))
	}
	return s.Store.Renew(ctx, holds)
}

// shardWatcher notes what happens to leases by their shard.
type shardWatcher struct {
	renewer.NopObserver
	mu      sync.Mutex
	missed  map[int]int
	lost    map[int]int
	longest time.Duration // from a heartbeat's due time to its answer, of those that were confirmed
}

func (w *shardWatcher) Missed(_ context.Context, e renewer.Missed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed[first(e.Name)]++
}

func (w *shardWatcher) Lost(_ context.Context, e renewer.Lost) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost[first(e.Name)]++
}

func (w *shardWatcher) Renewed(_ context.Context, e renewer.Renewed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Failed == 0 {
		w.longest = max(w.longest, e.Lag+e.Took)
	}
}

// inShards runs f in a bubble with a keeper on three shards.
func inShards(
	t *testing.T, f func(t *testing.T, s *shardedStore, k *renewer.Keeper, w *shardWatcher),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShardedStore()
		w := &shardWatcher{missed: map[int]int{}, lost: map[int]int{}}
		cfg := config
		cfg.Observer = w
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			assert.NoError(t, k.Shutdown(ctx))
		}()
		f(t, s, k, w)
	})
}

func TestAHungShardHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	inShards(t, func(t *testing.T, s *shardedStore, k *renewer.Keeper, w *shardWatcher) {
		const n = 3000
		var leases []*renewer.Lease
		for i := range n {
			leases = append(leases, acquire(t, k, fmt.Sprintf("%d:%d", i%3, i)))
		}
		waitFor(config.Heartbeat)
		w.mu.Lock()
		w.longest = 0
		w.mu.Unlock()
		s.hung.Store(1)
		waitFor(time.Minute)

		w.mu.Lock()
		s.mu.Lock()
		assert.Zero(t, s.mixed, "no heartbeat is of two shards")
		assert.Equal(t, map[int]int{1: n / 3}, w.lost)
		assert.Zero(t, w.missed[0]+w.missed[2], "the others miss nothing")
		assert.LessOrEqual(t, w.longest, 20*time.Millisecond, "nor is any of theirs late")
		assert.LessOrEqual(t, s.most[1], 8+4*8, "and the heartbeats that wait are bounded")
		s.mu.Unlock()
		w.mu.Unlock()
		for i, l := range leases {
			require.Equal(t, i%3 != 1, l.Valid())
		}

		s.hung.Store(-1)
		for _, l := range leases {
			if err := l.Release(t.Context()); first(l.Name()) != 1 {
				require.NoError(t, err)
			}
		}
	})
}

// A name that the store finds on another shard is renewed with the
// names there, without a heartbeat more or less.
func TestANameMovesToAnotherShard(t *testing.T) {
	t.Parallel()
	inShards(t, func(t *testing.T, s *shardedStore, k *renewer.Keeper, w *shardWatcher) {
		moved := atomic.Bool{}
		s.shard = func(name string) int {
			if moved.Load() && strings.HasSuffix(name, "moves") {
				return 2
			}
			return first(name)
		}
		l := acquire(t, k, "0:moves")
		waitFor(10 * config.Heartbeat)
		moved.Store(true)
		waitFor(10 * config.Heartbeat)
		moved.Store(false)
		waitFor(10 * config.Heartbeat)
		assert.InDelta(t, 30, len(s.Calls(script.Renew)), 1)
		assert.Empty(t, w.missed)
		moved.Store(true)
		require.NoError(t, l.Release(t.Context()),
			"while its heartbeat is planned where it was before")
		before := len(s.Calls(script.Renew))
		waitFor(10 * config.Heartbeat)
		assert.Len(t, s.Calls(script.Renew), before)
	})
}

// Whatever a store numbers its shards with.
func TestOddShardNumbers(t *testing.T) {
	t.Parallel()
	inShards(t, func(t *testing.T, s *shardedStore, k *renewer.Keeper, w *shardWatcher) {
		numbers := []int{0, -1, math.MinInt, math.MaxInt, 5000}
		s.shard = func(name string) int { return numbers[first(name)] }
		for i := range numbers {
			l := acquire(t, k, fmt.Sprintf("%d:", i))
			waitFor(10 * config.Heartbeat)
			require.True(t, l.Valid())
			require.NoError(t, l.Release(t.Context()))
		}
		assert.Empty(t, w.missed)
	})
}
