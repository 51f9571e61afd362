package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// Delivery is what an adapter knows of a job that a worker has. The zero value
// is that of a job that no framework delivers: it never stands in line.
type Delivery struct {
	// Kind is the job's type: a static name, which is what telemetry calls the
	// work.
	Kind string
	// Queue and ID tell the [Queue] of [InLine] which job it is. A job does not
	// stand in line without an ID, with a line feed in Queue, or if both
	// together have more than 4,000 bytes.
	Queue, ID string
	// Slots are those of the server that delivers it; nil: all jobs may wait in
	// their workers.
	Slots *Slots
	// Rank says how new the job is, for [lockmw.Replace] and [lockmw.Latest]:
	// an ID that rises, or when the job was enqueued; 0 for none. A job keeps
	// it when it comes again: give none rather than when a worker took the job
	// up. A name made by [lockmw.Ranked] has its own.
	Rank int64
	// Last means that the framework drops the job if it does not run now,
	// whatever it is told.
	Last bool
	// Copy puts a copy of a job that is Last into its queue, under this ID, to
	// run after a delay. It is called again after an error, and returns nil if
	// the queue has the ID already. ctx ends when the framework must be told
	// the outcome. If Copy is nil, a job that is Last waits in its worker.
	Copy func(ctx context.Context, id string, in time.Duration) error
}

// Wrap returns a function that runs fn under the lock on the name that key
// makes of a job's arguments; the adapter does with the job what the Result
// says. fn's context ends when the framework's does, or when the lock is lost.
// A panic passes through, and the lock is free then. The function may be called
// concurrently.
//
// It panics if k, key or fn is nil, or if no lock of k can be had with the
// options.
func Wrap[T any, N lockmw.Name](
	k *renewer.Keeper, key func(T) N, fn func(context.Context, T) error, opts ...Option,
) func(context.Context, Delivery, T) Result {
	if k == nil || key == nil || fn == nil {
		panic("lockbeat: jobs.Wrap needs a keeper (renewer.New), a key function and a function")
	}
	h := newHandler(k, opts)
	return func(ctx context.Context, d Delivery, args T) Result {
		set := names.Set(lockmw.All(key(args)))
		return h.run(ctx, d, set, func(ctx context.Context) error { return fn(ctx, args) })
	}
}

// handler is what the deliveries of one [Wrap] share.
type handler struct {
	settings

	keeper *renewer.Keeper
	line   *line // nil: its jobs don't stand in line
}

func newHandler(k *renewer.Keeper, opts []Option) *handler {
	h := &handler{settings: newSettings(k, opts), keeper: k}
	// The newest comes next, wherever it stands.
	if h.queue != nil && h.Contention != option.Skips && !h.isNewest() {
		h.line = newLine(k, h.queue)
	}
	return h
}

// run runs work under the locks of a set.
func (h *handler) run(
	ctx context.Context, d Delivery, set names.Set, work func(context.Context) error,
) Result {
	w, one, err := set.One()
	if one && err == nil && w.Limit == nil && w.Rank == 0 && h.isNewest() {
		w.Rank = max(d.Rank, 0)
		set = names.Of(w)
	}
	return newAttempt(ctx, h, d, set, work).run(ctx)
}

// Option is for [Wrap], and for the adapters of job frameworks: [InLine],
// [RetryIn], and those of package lockmw that fit. Of jobs some say more:
//
//   - [lockmw.Wait]: for so long a job waits in its worker before it goes back to its queue.
//     Default a second; never more than an eighth of the job's time, and not at all where too
//     many wait ([Slots]). By [lockmw.Refuse] a job waits only if it is Last.
//   - [lockmw.Replace], [lockmw.Latest]: a job that is replaced is done. The newest one stands
//     in no line: it waits in its worker, by default for an eighth of its time.
//   - [lockmw.LocalShare]: without it jobs go back to their queue while the store is away.
type Option interface {
	ForJob(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*settings)

// ForJob implements [Option].
func (own) ForJob(s option.Settings) option.Settings { return s }

type settings struct {
	option.Settings

	retryIn time.Duration // 0: the defaults
	queue   Queue         // nil: jobs don't stand in line
}

// defaultWait is how long a job waits in its worker unless told otherwise.
const defaultWait = time.Second

// newSettings panics if no lock of k can be had with them.
func newSettings(k *renewer.Keeper, opts []Option) settings {
	var s settings
	for _, o := range opts {
		switch o := o.(type) {
		case nil:
		case own:
			o(&s)
		default:
			s.Settings = o.ForJob(s.Settings)
		}
	}
	s.MustSuit(k)
	switch {
	case s.Wait != 0:
	case s.isNewest():
		s.Wait = noDeadline // that of the attempt bounds it
	default:
		s.Wait = defaultWait
	}
	if s.Contention != option.Waits {
		s.Wait = 0
	}
	s.Wait = min(s.Wait, noDeadline)
	return s
}

// isNewest reports whether of a key's jobs the newest alone waits.
func (s *settings) isNewest() bool { return s.Newest != renewer.NewestOff }

// RetryIn is for about how long a job stays away that was refused, or could not
// ask the locks' store: a random duration between half of d and one and a half.
// Default: a second, five if the store is away, longer for a lock that has been
// held for long. It panics below a millisecond.
func RetryIn(d time.Duration) Option {
	if d < time.Millisecond { // 5, say, for 5 * time.Second
		panic(fmt.Sprintf("lockbeat: RetryIn(%v) can't be meant: give a millisecond or more, such "+
			"as time.Second", d))
	}
	return own(func(s *settings) { s.retryIn = d })
}

// InLine has jobs stand in line for their lock, in the order in which they were
// first refused, without keeping a worker: one that is refused goes back to its
// queue, uncounted, and is called from there when its turn is near. Of a name's
// jobs one, on all servers, waits in its worker.
//
// A job whose call is lost comes back by itself: at any time from the keeper's
// TTL on, until a tenth of a second later for each job before it, 10 minutes at
// most.
//
// Without effect if the keeper's store keeps no lines of jobs: package
// redisstore's does, on one deployment. It panics if q is nil.
func InLine(q Queue) Option {
	if q == nil {
		panic("lockbeat: InLine needs the queue of the jobs")
	}
	return own(func(s *settings) { s.queue = q })
}
