package renewer

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Store is where locks are kept: redisstore.Open, memory.New and quorum.New
// make one.
type Store interface {
	// Engine is for [New].
	Engine() store.Store
}

// New returns a Keeper on a store. It does no I/O. The error is [ErrConfig].
// Call Shutdown when done.
func New(s Store, cfg Config) (*Keeper, error) { return newKeeper(s, cfg, timing.Slept) }

func newKeeper(s Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	engine, nilStore := engineOf(s)
	cfg, err := cfg.resolve()
	if err := errors.Join(nilStore, err); err != nil {
		return nil, err
	}
	if tuned, ok := engine.(contract.Tuned); ok && cfg.TTL < tuned.LeastTTL() {
		return nil, fmt.Errorf("%w: Config.TTL is %v, but the store is made for at least %v, and "+
			"would notice a dead connection too late: take %[3]v, or open the store for %[2]v "+
			"(redisstore.Deployment.TTL)", ErrConfig, cfg.TTL, tuned.LeastTTL())
	}
	clock := timing.NewClock(slept)
	ends := timing.NewLoop(clock)
	k := &Keeper{
		store:    engine,
		cfg:      cfg,
		rules:    cfg.rules(),
		self:     store.Holder{Node: cfg.Node, PID: os.Getpid()},
		clock:    clock,
		observer: cfg.Observer,
		hearers:  observersOf(cfg.Observer, cfg.Log),
		desk:     desk.New[*Lease](),
		outages: asking.NewOutages(asking.OutageConfig{
			Shards: asking.ShardsOf(engine), After: cfg.FailOver, Due: ends,
			TooLate: fmt.Errorf("%w: %s", errNoAnswer, cfg.farAway()),
		}, clock),
		requests: asking.NewRequests(cfg.RequestTimeout, clock),
		renewals: asking.NewRequests(cfg.beatPatience(), clock),
	}
	k.shutdown = newShutdown(k)
	_, tells := engine.(breaker)
	heartbeats := beat.New(beat.Config[*Lease]{
		TTL: cfg.TTL, Heartbeat: cfg.Heartbeat, RequestTimeout: cfg.RequestTimeout,
		Place: func(l *Lease) *beat.Place { return &l.beat }, Hold: (*Lease).beating,
	}, clock)
	k.locked.books = books{
		k: k, leases: timing.NewWheel(2*cfg.TTL, (*Lease).slot), ends: ends,
		heartbeats: heartbeats, idle: make(chan struct{}),
		// The first messages are not too soon after others.
		breakWatch: breakWatch{
			listens: !tells, limits: -instant(limitPause), young: -instant(limitPause),
		},
	}
	k.cleaner = cleanup.New(engine, cleanup.Config{
		RequestTimeout: cfg.RequestTimeout, Clock: clock, Run: k.goroutines.run,
		Limit: k.cleanUpRequest,
		Fault: func(name string, err error) { k.fault("clean up", name, err) },
	})
	if k.observer != nil {
		k.observer.Started(k)
	}
	k.goroutines.run(func() { heartbeats.Loop.Run(k.sendDue) })
	k.goroutines.run(func() { ends.Run(k.endDue) })
	return k, nil
}

func engineOf(s Store) (store.Store, error) {
	if !isNil(s) {
		if engine := s.Engine(); !isNil(engine) {
			return engine, nil
		}
	}
	return nil, fmt.Errorf("%w: store is nil: make one with redisstore.New or memory.New",
		ErrConfig)
}

// isNil also finds the nil of a concrete store inside an interface that is not
// nil.
func isNil(s any) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
