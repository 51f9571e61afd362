package renewer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Which lock guards what
//
// Keeper.mu guards what a hand-off changes in one step, so that no other goroutine sees half of
// it: lines, books, deadlines, heartbeats, shutdown, and those fields of a Lease that say so.
// It is held when a method of these parts is called, and where a comment says "under k.mu".
//
// cleaner.mu guards the cleaner. The order is: Keeper.mu, then cleaner.mu.
//
// outages, Clock, Loop, bound, Lease.op and Lease.until are atomic. They need no lock.
//
// No lock is held while the store, an observer or a user's function is called. The exception is
// Sharded.Shard, under Keeper.mu, which must return at once.

// Keeper acquires leases from one [Store] and keeps them alive. Two goroutines serve all of its
// leases: one sends heartbeats in batches, one ends what could not be renewed. All methods may be
// called concurrently.
type Keeper struct { // a coordinator of parts that own their state
	store    Store
	shards   shards
	cfg      Config
	validity time.Duration
	self     Holder
	clock    *timing.Clock
	observer Observer // nil if there is none

	bound   atomic.Pointer[bound] // of the latest requests
	life    context.Context       // of all requests
	endLife context.CancelFunc
	outages outages

	cleaner    *cleaner // of keys that no lease keeps
	goroutines goroutines

	mu         sync.Mutex
	lines      map[string]*Lease // who is at the head of each name's line: asking, or holding it
	books      books
	deadlines  deadlines
	heartbeats heartbeats
	shutdown   shutdown
}

// New returns a Keeper on store. It does no I/O. The error is
// [ErrConfig] and names each faulty field. Call Shutdown when done.
func New(store Store, cfg Config) (*Keeper, error) { return newKeeper(store, cfg, timing.Slept) }

func newKeeper(store Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	var nilStore error
	if v := reflect.ValueOf(store); store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		nilStore = fmt.Errorf("%w: store is nil: make one with redisstore.New or memory.New",
			ErrConfig)
	}
	cfg, err := cfg.resolve()
	if err := errors.Join(nilStore, err); err != nil {
		return nil, err
	}
	clock := timing.NewClock(slept)
	shards := shardsOf(store)
	k := &Keeper{
		store:      store,
		shards:     shards,
		cfg:        cfg,
		validity:   cfg.validity(),
		self:       Holder{Node: cfg.Node, PID: os.Getpid()},
		clock:      clock,
		observer:   cfg.Observer,
		deadlines:  newDeadlines(clock),
		lines:      make(map[string]*Lease),
		heartbeats: newHeartbeats(cfg, shards, clock),
		shutdown:   newShutdown(),
	}
	k.outages.clock = clock
	k.cleaner = newCleaner(store, cfg, clock, &k.goroutines, k.request)
	k.life, k.endLife = context.WithCancel(context.Background())
	k.goroutines.run(func() { k.heartbeats.loop.Run(k.sendDue) })
	k.goroutines.run(func() { k.deadlines.loop.Run(k.endDue) })
	return k, nil
}

// Config returns the configuration in force, with its defaults filled in.
func (k *Keeper) Config() Config { return k.cfg }

// begin is called under k.mu for a lease that the store has granted,
// after its request was sent at s.
func (k *Keeper) begin(l *Lease, s instant, now instant) {
	l.state = held
	l.acquired = now
	l.deadline = s.Add(k.validFor(l.ttl()))
	k.books.enter(l)
	k.limitHold(l, now)
	k.deadlines.set(l, instant(l.until.Load()))
	if l.manual() {
		return
	}
	l.due = s.Add(k.spread())
	k.heartbeats.plan(l, l.due)
}

// spread is when the first heartbeat comes, at a random point of the interval's second
// half, so that leases taken together do not beat together; later ones keep that distance.
func (k *Keeper) spread() time.Duration { return k.cfg.Heartbeat/2 + jitter(k.cfg.Heartbeat/2) }

// limitHold settles where belief in a new lease ends, by its deadline and by MaxHold. Under k.mu.
func (k *Keeper) limitHold(l *Lease, now instant) {
	l.limit = never
	if k.cfg.MaxHold > 0 {
		l.limit, l.limitFor = now.Add(k.cfg.MaxHold), ReasonMaxHold
	}
	l.setUntil()
}

// validFor is how long a lease may be believed in after a request for a TTL was sent.
func (k *Keeper) validFor(ttl time.Duration) time.Duration {
	if ttl == k.cfg.TTL {
		return k.validity
	}
	return validity(ttl, k.cfg.ClockDrift)
}

// setUntil recomputes the end of belief. Under k.mu.
func (l *Lease) setUntil() {
	l.until.Store(int64(min(l.deadline.Add(-l.k.cfg.Margin), l.limit)))
}

// newLease makes a lease that has not been granted yet, and room for the
// context of its operation if one will be needed: in one allocation.
func (k *Keeper) newLease(
	ctx context.Context, name string, label *label,
) (l *Lease, room *opContext) {
	if ctx.Done() != nil {
		both := new(struct {
			lease Lease
			room  opContext
		})
		l, room = &both.lease, &both.room
	} else {
		l = new(Lease)
	}
	l.k, l.name, l.label = k, name, label
	return l, room
}

// holder is what others read of a lease of this process.
func (k *Keeper) holder(l *Lease) Holder {
	h := k.self
	h.Operation, h.Trace = l.label.operation, l.label.trace
	return h
}
