package cronmw

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
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

// New returns a node that runs its jobs under locks of k. Their contexts derive from ctx: when it
// ends, they are cancelled, and no further ones begin.
//
// The keeper's Observer hears of every tick on this node, by [renewer.Observer].Ran: run, with the
// run's error, skipped, missed, or not run for another reason. Schedulers do not listen to errors,
// so renewer.Config.Log is told of what has failed.
//
// The error is [renewer.ErrConfig], and names the fault: there is no keeper, or its store keeps no
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
	errSeveral  = fmt.Errorf("%w: a tick is run once, so that its name can't be that of a limit "+
		"or of several locks: give the job a plain name, and have its function take those by "+
		"lockmw.Do", renewer.ErrConfig)
	errTwice = fmt.Errorf("%w: this node has a job of this name already, and the two would take "+
		"each other's ticks: give each a name of its own", renewer.ErrConfig)
)

// Schedule says when work is due: Next is the first tick later than t, or the
// zero time if there is none. The ticks must follow the clock, not when they are
// asked for. robfig/cron's schedules are of this kind, but for its own Every.
type Schedule interface{ Next(t time.Time) time.Time }

// Every returns a schedule with a tick at every multiple of d, by the clock: all
// nodes have the same ones, whenever they were started. Multiples are counted
// from a midnight, UTC, long past, so that durations which divide a day tick at
// its full hours, minutes or seconds. It panics if d is less than a millisecond.
func Every(d time.Duration) Schedule {
	if _, err := store.Millis(d); err != nil {
		panic(fmt.Sprintf("lockbeat: cronmw.Every(%v) can't be meant: give at least a "+
			"millisecond, such as a minute", d))
	}
	return ticks.Every(d)
}

// Job returns a job that runs fn once a tick, on one node of all that have a job with
// this name and schedule. Have a scheduler call [Job.Run], or [Job.Fire], on every tick.
//
// A name that the node has already is refused, with [renewer.ErrConfig]; so is a schedule
// without ticks, one whose ticks depend on when it is asked, and one whose ticks come
// closer together than the grace is long, and a name made by lockmw.Limit or lockmw.Keys: a tick is
// run once, so that no limit makes sense for it; what fn does may take a slot of one. An empty or
// too long name is [renewer.ErrName].
// To replace a job in a running program take another Node for the new one.
func (n *Node) Job(
	name string, s Schedule, fn func(context.Context) error, opts ...Option,
) (*Job, error) {
	j := &Job{node: n, book: ticks.NewBook(n.keeper, name), fn: fn}
	j.book.Schedule = s
	for _, opt := range opts {
		opt(j)
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
	if !slices.Equal(lockmw.NamesOf(j.book.Name), []string{j.book.Name}) {
		return errSeveral
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
