package renewer

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

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
	shards := shardsOf(store)
	k := &Keeper{
		store:      store,
		shards:     shards,
		cfg:        cfg,
		self:       Holder{Node: cfg.Node, PID: os.Getpid()},
		clock:      clock,
		observer:   cfg.Observer,
		deadlines:  newDeadlines(clock),
		queues:     queue.New[*Lease](),
		requests:   newRequests(cfg.RequestTimeout, clock),
		heartbeats: newHeartbeats(cfg, shards, clock),
		shutdown:   newShutdown(),
	}
	k.outages.clock = clock
	k.cleaner = newCleaner(store, cfg, clock, &k.goroutines, k.requests.limited)
	k.goroutines.run(func() { k.heartbeats.loop.Run(k.sendDue) })
	k.goroutines.run(func() { k.deadlines.loop.Run(k.endDue) })
	return k, nil
}
