package simtest_test

import (
	"context"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// observer ends beliefs at the instant of their loss, also where the caller's
// own cancellation ended the context before. In the goroutines of callers it
// panics now and then.
type observer struct {
	renewer.NopObserver

	w    *world
	link *link
	mu   sync.Mutex
	dice dice
}

// trip is what an observer panics with.
type trip struct{}

func (o *observer) step() {
	o.mu.Lock()
	panics := !o.w.calm.Load() && o.dice.chance(o.w.plan.panics)
	o.mu.Unlock()
	if panics {
		o.w.tally.count(tripped)
		panic(trip{})
	}
}

// trips calls f and reports whether an observer has panicked in it, as a server
// that recovers does.
func trips(f func()) (yes bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, yes = r.(trip); !yes {
				panic(r)
			}
		}
	}()
	f()
	return false
}

func (o *observer) AcquireStart(ctx context.Context, _ renewer.AcquireStart) context.Context {
	o.step()
	return ctx
}

func (o *observer) Claim(context.Context) string { o.step(); return "" }

func (o *observer) AcquireEnd(ctx context.Context, _ renewer.AcquireEnd) context.Context {
	o.step()
	return ctx
}

func (o *observer) Released(context.Context, renewer.Released) { o.step() }

// Lost is called when the context has been cancelled.
func (o *observer) Lost(ctx context.Context, e renewer.Lost) {
	o.w.ledger.lost(o.w, lot{o.link, e.Name, e.Fence}, e.Err)
	if ctx.Err() == nil {
		o.w.ledger.violate(contract, "an observer heard of a loss before the operation: %v", e.Err)
	}
}
