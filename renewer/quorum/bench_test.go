package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func cycle(
	b *testing.B, s store.Store, claims []store.Claim, holds []store.Hold,
) time.Duration {
	b.Helper()
	begun := time.Now()
	if g := s.Acquire(context.Background(), claims)[0]; g.Status != store.StatusHeld {
		b.Fatal(g.Status, g.Err)
	}
	if a := s.Release(context.Background(), holds)[0]; a.Status != store.StatusHeld &&
		a.Status != store.StatusGone {
		b.Fatal(a.Status, a.Err)
	}
	return time.Since(begun)
}

// BenchmarkAcquireRelease takes and frees a lock, fencing and wake-ups
// included, over servers that are 2 ms away. quorum/single is the median by
// that of the same cycle on the first server alone, in alternation, while the
// others rest.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var stores []store.Store
			for _, server := range servers(b, n) {
				stores = append(stores, onRedis(b, server, 15*time.Second, away(b, server)).Engine())
			}
			benchCycles(b, stores)
		})
	}
}

// away puts a server at a distance: what passes in either direction takes a
// millisecond.
func away(b *testing.B, server *redistest.Server) func(*rueidis.ClientOption) {
	b.Helper()
	link := proxy.Start(b, server.Addr())
	link.Delay(time.Millisecond)
	return func(o *rueidis.ClientOption) { o.InitAddress = []string{link.Addr()} }
}

func benchCycles(b *testing.B, stores []store.Store) {
	b.Helper()
	s, err := quorum.NewEngine(stores)
	require.NoError(b, err)
	b.Cleanup(s.Close)
	var whole, alone []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		owner := fmt.Sprintf("%0*d", store.OwnerLen, i)
		claims := []store.Claim{{Name: "n" + strconv.Itoa(i%512), Owner: owner, TTL: time.Minute}}
		holds := []store.Hold{{Name: claims[0].Name, Owner: owner, TTL: time.Minute}}
		whole = append(whole, cycle(b, s, claims, holds))
		b.StopTimer()
		claims[0].Name, holds[0].Name = "single"+claims[0].Name, "single"+claims[0].Name
		alone = append(alone, cycle(b, stores[0], claims, holds))
		b.StartTimer()
	}
	b.ReportMetric(float64(median(whole).Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(median(whole))/float64(median(alone)), "quorum/single")
}

// BenchmarkRenew renews 10,000 leases in the engine's batches of a thousand.
func BenchmarkRenew(b *testing.B) {
	const leases, batch = 10_000, 1000
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("leases=%d/nodes=%d", leases, n), func(b *testing.B) {
			s := overRedis(b, servers(b, n), 15*time.Second)
			holds := make([]store.Hold, leases)
			claims := make([]store.Claim, leases)
			for i := range holds {
				holds[i] = store.Hold{
					Name:  "order:" + strconv.Itoa(i),
					Owner: fmt.Sprintf("%0*d", store.OwnerLen, i), TTL: time.Hour,
				}
				claims[i] = store.Claim{
					Name: holds[i].Name, Owner: holds[i].Owner,
					TTL: time.Minute,
				}
			}
			for part := range slices.Chunk(claims, batch) {
				for _, g := range s.Acquire(b.Context(), part) {
					require.Equal(b, store.StatusHeld, g.Status)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				for part := range slices.Chunk(holds, batch) {
					for _, a := range s.Renew(context.Background(), part) {
						if a.Status != store.StatusHeld {
							b.Fatal(a.Status, a.Err)
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/leases, "ns/lease")
		})
	}
}

// BenchmarkContended has six programs want one lock, and hold it for 2 ms at a
// time: on one server without a quorum, and on three, also while one of them is
// down or hangs. An operation is a turn.
func BenchmarkContended(b *testing.B) {
	for _, c := range []struct {
		name   string
		n      int
		strike func(*redistest.Server) error
	}{
		{"one server", 1, nil},
		{"three", 3, nil},
		{"three, one down", 3, func(s *redistest.Server) error { s.Kill(); return nil }},
		{"three, one hung", 3, (*redistest.Server).Stop},
	} {
		b.Run(c.name, func(b *testing.B) {
			all := servers(b, c.n)
			var keepers []*renewer.Keeper
			for i := range 6 {
				var s renewer.Store
				if c.n == 1 {
					s = onRedis(b, all[0], 5*time.Second, nil)
				} else {
					s = overRedis(b, all, 5*time.Second)
				}
				keepers = append(keepers, keeperOn(b, s, renewer.Config{
					TTL: 5 * time.Second, Node: fmt.Sprint("node ", i),
				}))
			}
			if c.strike != nil {
				require.NoError(b, c.strike(all[1]))
			}
			benchTurns(b, keepers)
		})
	}
}

func benchTurns(b *testing.B, keepers []*renewer.Keeper) {
	b.Helper()
	var mu sync.Mutex
	var longest time.Duration
	var workers sync.WaitGroup
	turns := make(chan struct{})
	for _, k := range keepers {
		workers.Go(func() {
			for range turns {
				begun := time.Now()
				l, err := k.Acquire(b.Context(), renewer.Request{Name: "n"})
				if err != nil {
					b.Error(err)
					continue
				}
				mu.Lock()
				longest = max(longest, time.Since(begun))
				mu.Unlock()
				<-time.After(2 * time.Millisecond)
				if err := l.Release(b.Context()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		turns <- struct{}{}
	}
	close(turns)
	workers.Wait()
	b.ReportMetric(float64(longest.Milliseconds()), "longest-wait-ms")
}
