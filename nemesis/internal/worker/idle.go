package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// IdlePrefix begins the names of idle leases.
const IdlePrefix = "idle:"

// isIdle tells names of which no history is kept.
func isIdle(name string) bool { return strings.HasPrefix(name, IdlePrefix) }

// acquirers is the number of goroutines that take the idle leases.
const acquirers = 32

// idlers hold Spec.Idle leases on names of the worker's place, which no other wants, and take
// those that are lost again. A successor takes over what a worker that was killed has left.
type idlers struct {
	spec   Spec
	keeper *renewer.Keeper
	free   chan string // names not held
	held   *atomic.Int64

	mu    sync.Mutex
	stops map[*renewer.Lease]func() bool // stop waiting for the lease's end
}

func newIdlers(spec Spec, keeper *renewer.Keeper, held *atomic.Int64) *idlers {
	d := &idlers{
		spec: spec, keeper: keeper, held: held, free: make(chan string, spec.Idle),
		stops: make(map[*renewer.Lease]func() bool),
	}
	for i := range spec.Idle {
		d.free <- fmt.Sprintf("%s%d:%d", IdlePrefix, spec.Slot, i)
	}
	return d
}

// run takes leases until ctx ends, and frees them then.
func (d *idlers) run(ctx context.Context) {
	var busy sync.WaitGroup
	for range min(acquirers, d.spec.Idle) {
		busy.Go(func() {
			for d.one(ctx) {
			}
		})
	}
	busy.Wait()
	held := make(chan *renewer.Lease, d.spec.Idle)
	d.mu.Lock()
	for lease, stop := range d.stops {
		if stop() {
			held <- lease
		}
	}
	d.mu.Unlock()
	close(held)
	for range min(acquirers, d.spec.Idle) {
		busy.Go(func() {
			for lease := range held {
				_ = lease.Release(context.Background()) // what is left behind is looked for
			}
		})
	}
	busy.Wait()
}

// one takes one lease, and reports whether ctx still lives.
func (d *idlers) one(ctx context.Context) bool {
	var name string
	select {
	case <-ctx.Done():
		return false
	case name = <-d.free:
	}
	lease, err := d.keeper.Acquire(context.WithoutCancel(ctx), name, renewer.Operation("idle"),
		renewer.MaxWait(d.spec.TTL))
	if err == nil {
		d.keep(lease)
		return true
	}
	d.free <- name
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d.spec.TTL / 10):
		return true
	}
}

// keep holds a lease until it is lost.
func (d *idlers) keep(lease *renewer.Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held.Add(1)
	d.stops[lease] = context.AfterFunc(lease.Context(), func() {
		d.mu.Lock()
		delete(d.stops, lease)
		d.mu.Unlock()
		d.held.Add(-1)
		_ = lease.Release(context.Background()) // it is lost, and says so
		d.free <- lease.Name()
	})
}
