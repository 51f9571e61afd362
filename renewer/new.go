package renewer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/books"
	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

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
	k := &Keeper{
		store:     store,
		shards:    asking.ShardsOf(store),
		cfg:       cfg,
		self:      Holder{Node: cfg.Node, PID: os.Getpid()},
		clock:     clock,
		observer:  cfg.Observer,
		questions: timing.NewDeadlineHeap(func(c *opContext) *timing.Place { return &c.deadlinePlace }),
		ends:      timing.NewLoop(clock),
		books: books.New(books.Config[*Lease]{
			Index: func(l *Lease) *int32 { return &l.index }, End: (*Lease).heldUntil,
		}),
		queues:   queue.New[*Lease](),
		outages:  asking.NewOutages(clock),
		requests: asking.NewRequests(cfg.RequestTimeout, clock),
		heartbeats: beat.New(beat.Config[*Lease]{
			TTL: cfg.TTL, Heartbeat: cfg.Heartbeat, RequestTimeout: cfg.RequestTimeout,
			Place: func(l *Lease) *beat.Place { return &l.beat }, Hold: (*Lease).hold,
		}, clock),
		shutdown: newShutdown(),
	}
	k.cleaner = cleanup.New(store, cleanup.Config{
		RequestTimeout: cfg.RequestTimeout, Clock: clock, Run: k.goroutines.run,
		Limit: k.cleanUpRequest,
		Fault: func(name string, err error) { k.fault("clean up", name, err) },
	})
	k.goroutines.run(func() { k.heartbeats.Loop.Run(k.sendDue) })
	k.goroutines.run(func() { k.ends.Run(k.endDue) })
	return k, nil
}

// cleanUpRequest is the context of a clean-up in the background.
func (k *Keeper) cleanUpRequest() context.Context {
	ctx := k.requests.Limit()
	if k.observer != nil {
		ctx = k.observer.CleanUp(ctx)
	}
	return ctx
}
