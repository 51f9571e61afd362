package renewer

import (
	"context"
	"iter"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Observer hears of everything that happens to leases. Embed [NopObserver], so
// that a method added later does not break yours.
//
// Methods are called concurrently, never with a lock held, and must return
// soon: they delay the operation or the heartbeat. A context that one returns
// must derive from ctx, which is the lease's where nothing else is said. A
// panic passes through to the caller, who gets no lease, and no lock stays
// behind. In a goroutine of the engine (RenewStart, Renewed, Missed, CleanUp,
// Fault, StillRuns; Lost where no caller finds the loss) it ends the process,
// as runtime.Goexit does.
type Observer interface {
	// Started is called by [New]: from then on the keeper may be asked what it
	// holds, until its HealthCheck is [ErrShutdown].
	Started(k *Keeper)
	// AcquireStart gets the caller's context, and returns that of the attempts.
	AcquireStart(ctx context.Context, e AcquireStart) context.Context
	// Claim is called before a question to the store, unless an earlier one may
	// still be granted. It returns the W3C traceparent of the work to be done
	// ([store.Holder.Trace]), or "".
	Claim(ctx context.Context) (trace string)
	// AcquireEnd follows each AcquireStart, and returns the lease's context,
	// which is never nil.
	AcquireEnd(ctx context.Context, e AcquireEnd) context.Context
	// RenewStart comes before each heartbeat, of many leases, and returns the
	// context of the question.
	RenewStart(ctx context.Context, e RenewStart) context.Context
	// Renewed follows each RenewStart, as failed after [Config.RequestTimeout],
	// though a later answer still counts.
	Renewed(ctx context.Context, e Renewed)
	Missed(ctx context.Context, e Missed) // for each lease whose heartbeat failed or was late
	// CleanUp comes before a question for no caller, to free what may have been
	// left, and returns its context.
	CleanUp(ctx context.Context) context.Context
	Lost(ctx context.Context, e Lost) // once for a lost lease, when its context has ended
	// Released is called once for every lease, when its operation has ended and
	// the key was freed, could not be, or was handed over.
	Released(ctx context.Context, e Released)
	// StillRuns is told of an operation that runs on when others can have its
	// lock, and of one that has run for [Config.HoldWarning], twice that, and
	// so on.
	StillRuns(ctx context.Context, e StillRuns)
	// Unlocked is told of each operation that runs without its lock, as its
	// caller has chosen for an outage; ctx is the operation's.
	Unlocked(ctx context.Context, e Unlocked)
	// TasksInLine is called by a job adapter when another number of tasks
	// stands in line than when it last looked, 10 s before at most.
	TasksInLine(e TasksInLine)
	// Ran is called by packages cronmw and once for each run, and each tick
	// that was not run here.
	Ran(ctx context.Context, e Run)
	Fault(e Fault) // no caller sees: of a subscription, a clean-up, a set-up
}

// AcquireStart is a lock being asked for. Its fields are those of the
// [Request].
type AcquireStart struct {
	Name string
	// Limit is how many may have it at once, 0 for a lock and for a closed
	// limit; in an [AcquireEnd] the latest.
	Limit           int
	Operation       string
	LongRunning     bool
	RefusalExpected bool
	StandBy         bool
}

// AcquireEnd is a lock got or not.
type AcquireEnd struct {
	AcquireStart
	Wait       time.Duration // how long it took
	Attempts   int           // questions to the store
	Fence      int64         // the fencing token; 0 if Err is not nil
	Contended  bool          // another caller had it meanwhile, in any process
	HandedOver bool          // it came without a question to the store
	Holder     store.Holder  // who had the lock when last seen; zero if unknown
	HeldFor    time.Duration // how long Holder had had it when the wait ended; 0 if unknown
	Held       int           // slots, when last refused; above Limit if a process has a higher one
	Err        error         // what the caller gets
}

// RenewStart is a heartbeat about to be sent.
type RenewStart struct {
	Leases   int
	Contexts iter.Seq[context.Context] // of the leases, until RenewStart returns
}

// Renewed is one heartbeat.
type Renewed struct {
	Leases int           // OK + Gone + Failed
	OK     int           // those renewed
	Gone   int           // those that are not ours any more
	Failed int           // those without an answer, which are sent again
	Lag    time.Duration // how long after its due time the first was sent
	Took   time.Duration // how long the store took
	Err    error         // the first failure, or nil
}

// Missed is trouble with the heartbeat of one lease, which is not lost yet.
type Missed struct {
	Name      string
	Operation string
	Fence     int64
	Lag       time.Duration // by how much its heartbeat was late
	Left      time.Duration // how long the lease lasts if no further heartbeat succeeds
	Err       error         // why it failed; nil if it was late
}

// Lost is a lease lost.
type Lost struct {
	Name      string
	Operation string
	Fence     int64
	Held      time.Duration // how long it was held
	Err       *LostError    // why; its Left is the notice given
}

// Released is the end of an operation.
type Released struct {
	Name       string
	Operation  string
	Fence      int64
	Held       time.Duration // up to the release or the loss
	Overrun    time.Duration // how long the operation ran on after it was told of the loss
	Renewals   int           // confirmed heartbeats
	HandedOver bool          // the lock went to the next caller of this process
	Lost       *LostError    // why the lease was lost before; nil if it wasn't
	Err        error         // why the key could not be freed, or nil; then it lapses
}

// StillRuns is an operation that has not returned.
type StillRuns struct {
	Name      string
	Operation string
	Fence     int64
	Held      time.Duration // up to now or to its loss
	Waiting   int           // callers of this process who wait for it
	Lost      *LostError    // why the lease is lost; nil while it is held
	Overrun   time.Duration // how long the operation has run on since it was told of the loss
}

// Unlocked is an operation without its lock.
type Unlocked struct {
	Name      string
	Operation string
	Outage    time.Duration // how long the store has not answered
	Err       error         // why the lock was not to be had
}

// TasksInLine is how many tasks of a job system stand in line for a lock, in no
// worker, as all processes see it.
type TasksInLine struct {
	Name          string
	Tasks, Change int // Change: since the process last looked
}

// Fault is trouble in the background.
type Fault struct {
	Doing string // what failed, such as "watch", "clean up", "configure asynq"
	Name  string // of a lock, or ""
	Err   error
}

// NopObserver does nothing. Embed it in observers that want only some events.
type NopObserver struct{}

var _ Observer = NopObserver{}

// Started does nothing.
func (NopObserver) Started(*Keeper) {}

// AcquireStart returns ctx.
func (NopObserver) AcquireStart(ctx context.Context, _ AcquireStart) context.Context { return ctx }

// AcquireEnd returns ctx.
func (NopObserver) AcquireEnd(ctx context.Context, _ AcquireEnd) context.Context { return ctx }

// Claim returns "".
func (NopObserver) Claim(context.Context) string { return "" }

// RenewStart returns ctx.
func (NopObserver) RenewStart(ctx context.Context, _ RenewStart) context.Context { return ctx }

// Renewed does nothing.
func (NopObserver) Renewed(context.Context, Renewed) {}

// Missed does nothing.
func (NopObserver) Missed(context.Context, Missed) {}

// CleanUp returns ctx.
func (NopObserver) CleanUp(ctx context.Context) context.Context { return ctx }

// Lost does nothing.
func (NopObserver) Lost(context.Context, Lost) {}

// Released does nothing.
func (NopObserver) Released(context.Context, Released) {}

// StillRuns does nothing.
func (NopObserver) StillRuns(context.Context, StillRuns) {}

// Unlocked does nothing.
func (NopObserver) Unlocked(context.Context, Unlocked) {}

// TasksInLine does nothing.
func (NopObserver) TasksInLine(TasksInLine) {}

// Ran does nothing.
func (NopObserver) Ran(context.Context, Run) {}

// Fault does nothing.
func (NopObserver) Fault(Fault) {}

// Observers returns an Observer that passes on what it hears to each of these
// in order; nil ones are left out. The context that one returns is given to the
// next. The first trace that is not "" counts.
func Observers(all ...Observer) Observer {
	var both Observer = NopObserver{}
	for _, o := range all {
		if o != nil {
			both = observers{both, o}
		}
	}
	return both
}

// observers are two.
type observers struct{ first, second Observer }

// Started passes it on.
func (o observers) Started(k *Keeper) {
	o.first.Started(k)
	o.second.Started(k)
}

// AcquireStart passes it on.
func (o observers) AcquireStart(ctx context.Context, e AcquireStart) context.Context {
	return o.second.AcquireStart(o.first.AcquireStart(ctx, e), e)
}

// AcquireEnd passes it on.
func (o observers) AcquireEnd(ctx context.Context, e AcquireEnd) context.Context {
	return o.second.AcquireEnd(o.first.AcquireEnd(ctx, e), e)
}

// Claim asks both.
func (o observers) Claim(ctx context.Context) (trace string) {
	first, second := o.first.Claim(ctx), o.second.Claim(ctx)
	if first != "" {
		return first
	}
	return second
}

// RenewStart passes it on.
func (o observers) RenewStart(ctx context.Context, e RenewStart) context.Context {
	return o.second.RenewStart(o.first.RenewStart(ctx, e), e)
}

// Renewed passes it on.
func (o observers) Renewed(ctx context.Context, e Renewed) {
	o.first.Renewed(ctx, e)
	o.second.Renewed(ctx, e)
}

// Missed passes it on.
func (o observers) Missed(ctx context.Context, e Missed) {
	o.first.Missed(ctx, e)
	o.second.Missed(ctx, e)
}

// CleanUp passes it on.
func (o observers) CleanUp(ctx context.Context) context.Context {
	return o.second.CleanUp(o.first.CleanUp(ctx))
}

// Lost passes it on.
func (o observers) Lost(ctx context.Context, e Lost) {
	o.first.Lost(ctx, e)
	o.second.Lost(ctx, e)
}

// Released passes it on.
func (o observers) Released(ctx context.Context, e Released) {
	o.first.Released(ctx, e)
	o.second.Released(ctx, e)
}

// StillRuns passes it on.
func (o observers) StillRuns(ctx context.Context, e StillRuns) {
	o.first.StillRuns(ctx, e)
	o.second.StillRuns(ctx, e)
}

// Unlocked passes it on.
func (o observers) Unlocked(ctx context.Context, e Unlocked) {
	o.first.Unlocked(ctx, e)
	o.second.Unlocked(ctx, e)
}

// TasksInLine passes it on.
func (o observers) TasksInLine(e TasksInLine) {
	o.first.TasksInLine(e)
	o.second.TasksInLine(e)
}

// Ran passes it on.
func (o observers) Ran(ctx context.Context, e Run) {
	o.first.Ran(ctx, e)
	o.second.Ran(ctx, e)
}

// Fault passes it on.
func (o observers) Fault(e Fault) {
	o.first.Fault(e)
	o.second.Fault(e)
}
