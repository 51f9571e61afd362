package renewer_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// yes is a store that grants everything at once and remembers nothing, so that a
// benchmark measures the engine alone.
type yes struct{ fence atomic.Int64 }

func (s *yes) Acquire(_ context.Context, claims []contract.Claim) []contract.Grant {
	grants := make([]contract.Grant, len(claims))
	for i := range grants {
		grants[i] = contract.Grant{Status: contract.StatusHeld, Fence: s.fence.Add(1)}
	}
	return grants
}

func (s *yes) Renew(_ context.Context, holds []contract.Hold) []contract.Answer {
	return allHeld(holds)
}

func (s *yes) Release(_ context.Context, holds []contract.Hold) []contract.Answer {
	return allHeld(holds)
}

func (s *yes) Watch(string, func(error)) func() { return func() {} }
func (s *yes) Settle() time.Duration            { return 0 }

func allHeld(holds []contract.Hold) []contract.Answer {
	answers := make([]contract.Answer, len(holds))
	for i := range answers {
		answers[i].Status = contract.StatusHeld
	}
	return answers
}

// parents are the callers' contexts that make a difference to an acquire.
var parents = map[string]func() (context.Context, context.CancelFunc){
	"background": func() (context.Context, context.CancelFunc) {
		return context.Background(), func() {}
	},
	"cancellable": func() (context.Context, context.CancelFunc) {
		return context.WithCancel(context.Background())
	},
}

func benchKeeper(b *testing.B, store contract.Store) *renewer.Keeper {
	b.Helper()
	k, err := renewer.New(store, renewer.Config{TTL: time.Hour})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, k.Shutdown(context.Background())) })
	return k
}

// What a lease that is only held takes of memory, its name left out: at most 300 bytes.
func BenchmarkHold(b *testing.B) {
	const n = 100_000
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for name, parent := range parents {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				k := benchKeeper(b, new(yes))
				ctx, cancel := parent()
				leases := make([]*renewer.Lease, n)
				before := heap()
				for i := range leases {
					var err error
					leases[i], err = k.Acquire(ctx, names[i])
					require.NoError(b, err)
				}
				b.ReportMetric(float64(heap()-before)/n, "B/lease")
				for _, l := range leases {
					require.NoError(b, l.Release(context.Background()))
				}
				cancel()
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
