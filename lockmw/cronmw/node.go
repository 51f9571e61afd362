package cronmw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// MaxGrace is the longest grace that a job has by default: see [Config].
const MaxGrace = ticks.MaxGrace

// Config says how a [Node] runs its jobs. OnTick is required.
type Config struct {
	// Grace is how long after it is due a tick may still be begun: by a node that is late, or
	// when the store is back. At most the shortest time between two ticks. Milliseconds;
	// fractions are cut off. Default half of that time, at most [MaxGrace] (15 minutes); [Grace]
	// sets it for one job.
	Grace time.Duration

	// OnTick hears of every tick on this node: run, with the run's error, skipped, missed, or not
	// run for another reason. Schedulers do not listen to errors, so no other code hears of
	// them. It is called from the goroutine of the tick, concurrently. [LogTicks] makes one.
	OnTick func(context.Context, Tick)
}

// Node has the jobs of one process. Its methods may be called concurrently.
type Node struct {
	ctx    context.Context
	keeper *renewer.Keeper
	cfg    Config
	clock  func() time.Time // nil: time.Now

	mu    sync.Mutex
	names map[string]bool
}

// New returns a node that runs its jobs under locks of k. Their contexts
// derive from ctx: when it ends, they are cancelled, and no further ones
// begin. The error is [renewer.ErrConfig], and names each faulty field.
func New(ctx context.Context, k *renewer.Keeper, cfg Config) (*Node, error) {
	var faults []error
	if k == nil {
		faults = append(faults,
			fmt.Errorf("%w: New needs a keeper: renewer.New", renewer.ErrConfig))
	} else if err := k.CheckRecords(); err != nil {
		faults = append(faults, err)
	}
	if cfg.OnTick == nil {
		faults = append(faults,
			fmt.Errorf("%w: Config.OnTick is nil, so that no code would hear of a failed run: "+
				"take cronmw.LogTicks(logger), "+
				"or a function of your own", renewer.ErrConfig))
	}
	if _, err := ticks.NewGrace(cfg.Grace, 0); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return &Node{ctx: ctx, keeper: k, cfg: cfg, names: make(map[string]bool)}, nil
}

// Schedule says when work is due: Next is the first tick later than t, or the
// zero time if there is none. The ticks must follow the clock, not when they are
// asked for. robfig/cron's schedules are of this kind, but for its own Every.
type Schedule interface{ Next(t time.Time) time.Time }

// Job returns a job that runs fn once a tick, on one node of all that have a job with
// this name and schedule. Have a scheduler call [Job.Run], or [Job.Fire], on every tick.
//
// A name that the node has already is refused, with [renewer.ErrConfig]; so is a schedule
// without ticks, one whose ticks depend on when it is asked, and one whose ticks come
// closer together than the grace is long. An empty or too long name is [renewer.ErrName].
func (n *Node) Job(
	name string, s Schedule, fn func(context.Context) error, opts ...Option,
) (*Job, error) {
	j := &Job{
		node: n, name: name, schedule: s, fn: fn, settings: settings{grace: n.cfg.Grace},
	}
	for _, opt := range opts {
		opt(&j.settings)
	}
	if err := j.check(); err != nil {
		return nil, fmt.Errorf("job %q: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[name] {
		return nil, fmt.Errorf("%w: this node has a job %q already, and the two would take each "+
			"other's ticks: give each a name of its own, "+
			"or Forget the first", renewer.ErrConfig, name)
	}
	n.names[name] = true
	if j.ifMissed || j.attempts > 1 {
		go j.catchUp(n.ctx)
	}
	return j, nil
}

// Forget makes a name free for another job. The scheduler must run the old one no more.
func (n *Node) Forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}
