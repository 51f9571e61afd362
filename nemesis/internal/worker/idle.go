package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// IdlePrefix begins the names of idle leases.
const IdlePrefix = "idle:"

// acquirers is the number of goroutines that take the idle leases.
const acquirers = 32

// holdIdle holds Spec.Idle leases on names of the worker's own, takes those that are lost again, and frees them when ctx ends.
func holdIdle(ctx context.Context, spec Spec, keeper *renewer.Keeper) {
	if spec.Idle == 0 {
		return
	}
	names := make(chan string, spec.Idle)
	for i := range spec.Idle {
		names <- fmt.Sprintf("%s%s:%d", IdlePrefix, spec.Name, i)
	}
	var mu sync.Mutex
	held := make(map[*renewer.Lease]func() bool)
	var busy sync.WaitGroup
	keep := func(lease *renewer.Lease) {
		stop := context.AfterFunc(lease.Context(), func() {
			mu.Lock()
			delete(held, lease)
			mu.Unlock()
			_ = lease.Release(context.Background()) // it is lost, and says so
			names <- lease.Name()
		})
		mu.Lock()
		defer mu.Unlock()
		if lease.Context().Err() == nil {
			held[lease] = stop
		}
	}
	for range acquirers {
		busy.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case name := <-names:
					lease, err := keeper.Acquire(context.WithoutCancel(ctx), name, renewer.MaxWait(spec.TTL))
					if err == nil {
						keep(lease)
						continue
					}
					names <- name
					select {
					case <-ctx.Done():
					case <-time.After(spec.TTL / 10):
					}
				}
			}
		})
	}
	busy.Wait()
	mu.Lock()
	defer mu.Unlock()
	for _, stop := range held {
		stop() // Shutdown frees them, in batches
	}
}
