package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// benchStore is a store as recommended, on a private server.
func benchStore(b *testing.B) *redisstore.Store {
	b.Helper()
	_, s := startReal(b)
	option, err := redisstore.ClientOption(s.option, 15*time.Second)
	require.NoError(b, err)
	s.option = option
	return s.store(b)
}

// BenchmarkAcquireRelease takes and frees one lock, fencing and wake-up
// included, from one goroutine and from 64, each with a key of its own.
func BenchmarkAcquireRelease(b *testing.B) {
	b.Run("goroutines=1", func(b *testing.B) {
		s := benchStore(b)
		c, h := claim("bench", "a", time.Minute), hold("bench", "a", 0)
		b.ReportAllocs()
		for b.Loop() {
			cycle(b, s, c, h)
		}
	})
	b.Run("goroutines=64", func(b *testing.B) {
		s := benchStore(b)
		var n atomic.Int64
		b.ReportAllocs()
		b.SetParallelism(32) // times GOMAXPROCS, 2 where the figures in documents come from
		b.RunParallel(func(p *testing.PB) {
			name := "bench" + strconv.FormatInt(n.Add(1), 10)
			c, h := claim(name, "a", time.Minute), hold(name, "a", 0)
			for p.Next() {
				cycle(b, s, c, h)
			}
		})
	})
}

// BenchmarkKeeper is BenchmarkAcquireRelease from one goroutine through a keeper, as users do.
func BenchmarkKeeper(b *testing.B) {
	k, err := renewer.New(benchStore(b), renewer.Config{TTL: 15 * time.Second})
	require.NoError(b, err)
	defer func() { require.NoError(b, k.Shutdown(context.Background())) }()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := k.Acquire(context.Background(), "bench")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func cycle(b *testing.B, s renewer.Store, c renewer.Claim, h renewer.Hold) {
	b.Helper()
	if g := s.Acquire(context.Background(), []renewer.Claim{c}); g[0].Status != renewer.StatusHeld {
		b.Error(g[0].Status, g[0].Err)
	}
	if a := s.Release(context.Background(), []renewer.Hold{h}); a[0].Status != renewer.StatusHeld {
		b.Error(a[0].Status, a[0].Err)
	}
}

// BenchmarkReplicas is BenchmarkAcquireRelease from one goroutine
// with a replica, which confirms each grant or is not asked.
func BenchmarkReplicas(b *testing.B) {
	for n := range 2 {
		b.Run(fmt.Sprintf("replicas=%d", n), func(b *testing.B) {
			_, _, server := withReplica(b)
			s := server.store(b, redisstore.Replicas(n))
			c, h := claim("bench", "a", time.Minute), hold("bench", "a", 0)
			b.ReportAllocs()
			for b.Loop() {
				cycle(b, s, c, h)
			}
		})
	}
}

// BenchmarkMessages takes and frees locks on a cluster by bare rueidis, with messages that
// go to all nodes or stay in the shard, and reports what that costs all nodes together.
func BenchmarkMessages(b *testing.B) {
	for _, masters := range []int{3, 6} {
		for _, to := range []string{"all", "shard"} {
			b.Run(fmt.Sprintf("masters=%d/to=%s", masters, to), func(b *testing.B) {
				cluster := redistest.StartCluster(b, masters, 0)
				client := clusterStore(b, cluster, 15*time.Second).Client()
				take, free := rueidis.NewLuaScript(
					redisstore.Scripts["acquire.lua"],
				), rueidis.NewLuaScript(redisstore.Scripts["release.lua"])
				begun, n := cpu(b, cluster), atomic.Int64{}
				b.SetParallelism(32)
				b.ResetTimer()
				b.RunParallel(func(p *testing.PB) {
					name := "{" + strconv.FormatInt(n.Add(1), 10) + "}"
					for p.Next() {
						err := take.Exec(b.Context(), client, []string{name, name + ":fence"},
							[]string{owner("a"), "60000", "86400000", "", ""}).Error()
						if err == nil {
							err = free.Exec(b.Context(), client, []string{name},
								[]string{"0", owner("a"), to}).Error()
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64((cpu(b, cluster)-begun).Nanoseconds())/float64(b.N),
					"server-ns/op")
			})
		}
	}
}

// cpu is the time that all nodes have worked.
func cpu(b *testing.B, cluster *redistest.Cluster) (sum time.Duration) {
	b.Helper()
	for _, m := range cluster.Masters {
		info, err := m.Do("INFO", "cpu").ToString()
		require.NoError(b, err)
		for line := range strings.Lines(info) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok &&
				(name == "used_cpu_sys" || name == "used_cpu_user") {
				seconds, err := strconv.ParseFloat(value, 64)
				require.NoError(b, err)
				sum += time.Duration(seconds * float64(time.Second))
			}
		}
	}
	return sum
}

// BenchmarkFloor does with bare rueidis what BenchmarkAcquireRelease does, by the same two scripts.
func BenchmarkFloor(b *testing.B) {
	for _, parallel := range []int{0, 32} {
		b.Run(fmt.Sprintf("goroutines=%d", max(1, 2*parallel)), func(b *testing.B) {
			client := benchStore(b).Client()
			take, free := rueidis.NewLuaScript(
				redisstore.Scripts["acquire.lua"],
			), rueidis.NewLuaScript(redisstore.Scripts["release.lua"])
			run := func(keys []string) {
				ctx := context.Background()
				err := take.Exec(ctx, client, keys,
					[]string{owner("a"), "60000", "86400000", "node", ""}).Error()
				if err == nil {
					err = free.Exec(ctx, client, keys[:1], []string{"0", owner("a")}).Error()
				}
				if err != nil {
					b.Error(err)
				}
			}
			var n atomic.Int64
			b.ReportAllocs()
			if parallel == 0 {
				for b.Loop() {
					run([]string{"{k}", "{k}:fence"})
				}
				return
			}
			b.SetParallelism(parallel)
			b.RunParallel(func(p *testing.PB) {
				key := "{k" + strconv.FormatInt(n.Add(1), 10) + "}"
				keys := []string{key, key + ":fence"}
				for p.Next() {
					run(keys)
				}
			})
		})
	}
}

// BenchmarkRenew renews leases in one call; ns/lease is the time of one.
func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("leases=%d", n), func(b *testing.B) {
			s := benchStore(b)
			claims, holds := make([]renewer.Claim, n), make([]renewer.Hold, n)
			for i := range n {
				name := "order:" + strconv.Itoa(i)
				claims[i], holds[i] = claim(name, "a", time.Minute), hold(name, "a", time.Hour)
			}
			for _, g := range s.Acquire(b.Context(), claims) {
				require.Equal(b, renewer.StatusHeld, g.Status)
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, a := range s.Renew(context.Background(), holds) {
					if a.Status != renewer.StatusHeld {
						b.Fatal(a.Status, a.Err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/lease")
		})
	}
}
