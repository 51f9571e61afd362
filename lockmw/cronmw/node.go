package cronmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
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
	books  *ticks.Books
	onTick func(context.Context, Tick)
	clock  func() time.Time
}

// New returns a node that runs its jobs under locks of k. Their contexts
// derive from ctx: when it ends, they are cancelled, and no further ones
// begin. The error is [renewer.ErrConfig], and names each faulty field.
func New(ctx context.Context, k *renewer.Keeper, cfg Config) (*Node, error) {
	books, err := ticks.NewBooks(k, schedulers.OfJob, cfg.Grace)
	if cfg.OnTick == nil {
		err = errors.Join(err, fmt.Errorf("%w: Config.OnTick is nil, so that no code would hear "+
			"of a failed run: take cronmw.LogTicks(logger), or a function of your own",
			renewer.ErrConfig))
	}
	if err != nil {
		return nil, err
	}
	return &Node{ctx: ctx, books: books, onTick: cfg.OnTick, clock: time.Now}, nil
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
	j := &Job{node: n, book: n.books.New(name), schedule: s, fn: fn}
	j.book.Clock = n.clock
	for _, opt := range opts {
		opt(j)
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("job %q: %w", name, err)
	}
	if j.looksBack() {
		go j.catchUp(n.ctx)
	}
	return j, nil
}

// Forget makes a name free for another job. The scheduler must run the old one no more.
func (n *Node) Forget(name string) { n.books.Forget(name) }
