package cronmw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Node has the jobs of one process. Its methods may be called concurrently.
type Node struct {
	ctx    context.Context
	keeper *renewer.Keeper

	mu    sync.Mutex
	names map[string]bool
}

// New returns a node that runs its jobs under locks of k. When ctx ends, their
// contexts end, and no further ones begin.
//
// The error is [renewer.ErrConfig]: there is no keeper, or its store keeps no
// records.
func New(ctx context.Context, k *renewer.Keeper) (*Node, error) {
	if k == nil {
		return nil, errNoKeeper
	}
	if err := records.Of(k).Check(); err != nil {
		return nil, err
	}
	return &Node{ctx: ctx, keeper: k, names: make(map[string]bool)}, nil
}

var (
	errNoKeeper = fmt.Errorf("%w: it needs a keeper: renewer.New", renewer.ErrConfig)
	errNoJob    = fmt.Errorf("%w: it needs a schedule and a function", renewer.ErrConfig)
	errTwice    = fmt.Errorf("%w: this node has a job of this name already, and the two would "+
		"take each other's ticks: give each a name of its own", renewer.ErrConfig)
)

// Schedule says when work is due: Next is the first tick later than t, or the
// zero time if there is none. It must follow the clock, and not when it is
// asked, as robfig/cron's schedules do.
type Schedule interface{ Next(t time.Time) time.Time }

// Every ticks at every multiple of d by the clock, counted from a midnight,
// UTC: at the full hours, minutes or seconds if d divides a day. It panics if d
// is less than a millisecond.
func Every(d time.Duration) Schedule {
	if _, err := store.Millis(d); err != nil {
		panic(fmt.Sprintf("lockbeat: cronmw.Every(%v) can't be meant: give at least a "+
			"millisecond, such as a minute", d))
	}
	return ticks.Every(d)
}

// Job returns a job that runs fn once a tick, on one node of all that have it.
//
// The error is [renewer.ErrConfig] if the node has the name already, or the
// schedule has no ticks, has others whenever it is asked, or has them closer
// together than the grace; [renewer.ErrName] if the name is empty or too long.
// To replace a job in a running program take another Node for the new one.
func (n *Node) Job(
	name string, s Schedule, fn func(context.Context) error, opts ...Option,
) (*Job, error) {
	j := &Job{node: n, book: ticks.NewBook(n.keeper, name), fn: fn}
	j.book.Schedule = s
	for _, opt := range opts {
		switch opt := opt.(type) {
		case nil:
		case own:
			opt(j)
		default:
			j.book.Settings = opt.ForTick(j.book.Settings)
		}
	}
	if err := n.add(j); err != nil {
		return nil, fmt.Errorf("job %q: %w", name, err)
	}
	told := false
	defer func() {
		if !told { // an observer has panicked
			n.drop(name)
		}
	}()
	j.tell(n.ctx, time.Now(), renewer.Run{Outcome: renewer.OutcomeAdded})
	told = true
	if j.looksBack() {
		go j.catchUp()
	}
	return j, nil
}

// add refuses what can never work, and takes the job's name.
func (n *Node) add(j *Job) error {
	if j.book.Schedule == nil || j.fn == nil {
		return errNoJob
	}
	if err := j.book.Check(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[j.book.Name] {
		return errTwice
	}
	n.names[j.book.Name] = true
	return nil
}

// drop frees the name of a job that was not added.
func (n *Node) drop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

var _ cron.Job = (*Job)(nil)

// AddFunc is c.AddFunc for a function that runs once a tick, on one node of
// many: see [Node.Job] for what is refused. The spec is read by c's parser, in
// c's location, which must be the same on all nodes. "@every 30s" is [Every],
// and not 30 s from each node's start.
//
// For a schedule of your own: c.Schedule(schedule, job), with a job of
// [Node.Job].
func (n *Node) AddFunc(
	c *cron.Cron, spec, name string, fn func(context.Context) error, opts ...Option,
) (cron.EntryID, error) {
	// c's parser can only be reached by adding something.
	probe, err := c.AddFunc(spec, func() {})
	if err != nil {
		return 0, fmt.Errorf("%w: job %q: %w", renewer.ErrConfig, name, err)
	}
	schedule := ticks.Crontab(c.Entry(probe).Schedule, c.Location())
	c.Remove(probe)
	j, err := n.Job(name, schedule, fn, opts...)
	if err != nil {
		return 0, err
	}
	return c.Schedule(schedule, j), nil
}

// mostTurns is how often another schedule's record may follow one of this job's
// own before that is told. Once is what the nodes of before a deployment see of
// it, if the schedule is changed.
const mostTurns = 2

// shared counts how often ticks of another schedule follow this job's own on
// record.
type shared struct {
	mu    sync.Mutex
	own   bool // the record seen last was written by the job's own schedule
	turns int
}

// next counts a record, and reports once that there were too many turns.
func (s *shared) next(own bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := s.own && !own
	s.own = own
	if turn {
		s.turns++
	}
	return turn && s.turns == mostTurns
}

// compare tells the observer if the record is of another schedule again and
// again.
func (j *Job) compare(ctx context.Context, rec ticks.Record) {
	if rec.Due.IsZero() || !j.shared.next(!j.book.Changed(rec)) {
		return
	}
	j.tell(ctx, time.Now(), renewer.Run{
		Due: rec.Due, Outcome: renewer.OutcomeConflict, Holder: rec.Holder(),
		Err: fmt.Errorf("%w: job %q: its record is written by this schedule and by another one in "+
			"turns: two programs have a job of this name, and take each other's ticks: give each "+
			"a name of its own. While a changed schedule is being deployed that is no fault",
			renewer.ErrConfig, j.book.Name),
	})
}
