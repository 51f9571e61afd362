package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// sizes are how many leases there are.
var sizes = []int{1, 100, 10_000}

// newStore is a store on a private server, and the leases that it holds.
func newStore(b *testing.B, leases int) (*redisstore.Store, []renewer.Hold) {
	const ttl = time.Hour // none lapses meanwhile
	server := redistest.Start(b)
	client, err := newClient(server.Addr(), ttl)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	store, err := redisstore.New(client)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	claims, holds := make([]renewer.Claim, leases), make([]renewer.Hold, leases)
	for i := range claims {
		owner := fmt.Sprintf("%0*d", renewer.OwnerLen, i)
		claims[i] = renewer.Claim{Name: leaseName(i), Owner: owner, TTL: ttl}
		holds[i] = renewer.Hold{Name: leaseName(i), Owner: owner, TTL: ttl}
	}
	for i, g := range store.Acquire(context.Background(), claims) {
		if g.Status != renewer.StatusHeld {
			b.Fatalf("claim %d: %v, %v", i, g.Status, g.Err)
		}
	}
	return store, holds
}

// BenchmarkRenew renews all leases in one call.
func BenchmarkRenew(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("leases=%d", size), func(b *testing.B) {
			store, holds := newStore(b, size)
			b.ReportAllocs()
			for b.Loop() {
				if a := store.Renew(context.Background(),
					holds); a[size-1].Status != renewer.StatusHeld {
					b.Fatal(a[size-1])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/lease")
		})
	}
}

// BenchmarkAcquireRelease takes and frees one lease while the keeper holds others.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("leases=%d", size), func(b *testing.B) {
			ctx := context.Background()
			server := redistest.Start(b)
			k, err := newKeeper(server.Addr(), time.Minute)
			if err != nil {
				b.Fatal(err)
			}
			var held []*renewer.Lease
			for i := range size - 1 {
				l, err := k.Acquire(ctx, leaseName(i))
				if err != nil {
					b.Fatal(err)
				}
				held = append(held, l)
			}
			cycle := bareCall(k)
			b.ReportAllocs()
			for b.Loop() {
				if err := cycle(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			for _, l := range held {
				if err := l.Release(ctx); err != nil {
					b.Error(err)
				}
			}
			if err := k.Shutdown(ctx); err != nil {
				b.Error(err)
			}
		})
	}
}
