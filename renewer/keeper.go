package renewer

import (
	"context"
	"sync"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Keeper acquires leases from one [store.Store] and keeps them alive. A process
// needs one. All methods may be called concurrently.
type Keeper struct { // a coordinator of parts that own their state
	store    store.Store
	cfg      Config
	rules    lease.Rules
	self     store.Holder
	clock    *timing.Clock
	observer Observer // of everything; nil if there is none
	hearers  Observer // it, and Config.Log, of what is rare; never nil

	requests *asking.Requests
	renewals *asking.Requests // the same for heartbeats, which are waited for longer
	outages  *asking.Outages

	labels     labels
	desk       *desk.Desk[*Lease] // who may have a name next
	cleaner    *cleanup.Cleaner   // of keys that no lease keeps
	goroutines goroutines

	locked   locked
	shutdown shutdown
}

// Config returns the configuration in force, with its defaults.
func (k *Keeper) Config() Config { return k.cfg }

// Store returns the keeper's store.
func (k *Keeper) Store() store.Store { return k.store }

// Observer is who hears of what happens with the keeper's locks:
// [Config.Observer], and [Config.Log] of what needs a person. It is never nil.
// An adapter tells it of a [Fault], of an operation that is [Unlocked], and of
// a [Run].
func (k *Keeper) Observer() Observer { return k.hearers }

// ShuttingDown is closed when [Keeper.Shutdown] begins.
func (k *Keeper) ShuttingDown() <-chan struct{} { return k.shutdown.closed }

// holder is what others read of a lease of this process.
func (k *Keeper) holder(l *Lease) store.Holder {
	h := k.self
	h.Operation, h.Trace = l.label.operation, l.label.trace
	return h
}

func (k *Keeper) fault(doing, name string, err error) {
	k.hearers.Fault(Fault{Doing: doing, Name: name, Err: err})
}

// cleanUpRequest is the context of a clean-up in the background.
func (k *Keeper) cleanUpRequest() context.Context {
	ctx := k.requests.Limit()
	if k.observer != nil {
		ctx = k.observer.CleanUp(ctx)
	}
	return ctx
}

// goroutines are those that the engine has started.
type goroutines struct{ sync.WaitGroup }

// run starts one. If an observer or a store ends it, the process ends, as it
// does by a panic: a keeper that ends no lease in time, or renews none, is
// worse.
func (g *goroutines) run(f func()) {
	g.Go(func() {
		over := false
		defer func() {
			if !over {
				panic("lockbeat: an Observer or a Store has ended a goroutine of the engine, by " +
					"a panic or by runtime.Goexit")
			}
		}()
		f()
		over = true
	})
}
