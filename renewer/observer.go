package renewer

import (
	"context"
	"iter"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Observer hears of everything that happens to leases. Tracing,
// metrics and logs are observers; [NewLogObserver] is one.
//
// Methods are called from the goroutines of callers and of the engine, concurrently, never with
// a lock held, and must return soon: a slow observer delays the operation or the heartbeat that
// it observes. Embed [NopObserver] so that a method added here later does not break yours.
//
// A method should not panic. One that does in a caller's goroutine leaves no lock behind: the panic
// passes through New, Acquire, Release or Extend, the key is freed, and the next caller has its
// turn; the caller gets no lease, and observers hear no more of this one. In a goroutine of the
// engine, as with any panic that nothing recovers, the process ends: RenewStart, Renewed and Missed
// of a heartbeat, CleanUp, Fault, StillRuns, and Lost except where Release, Extend or Acquire finds
// the loss. The same is true of runtime.Goexit, which testing.T.FailNow calls: without its
// goroutines the engine could not end a lease in time.
type Observer interface {
	// Started is called once for each keeper, by [New], before any other method. From then on the
	// observer may ask it what it holds, as when metrics are collected. It lets go of a keeper
	// whose HealthCheck is [ErrShutdown].
	Started(k *Keeper)
	// AcquireStart is called before a lock is asked for. The context
	// it returns is used for the attempts.
	AcquireStart(ctx context.Context, e AcquireStart) context.Context
	// Claim is called before each question to the store; ctx derives from
	// AcquireStart's. It returns what becomes [store.Holder.Trace]: the W3C
	// traceparent of the work to be done under the lock, or "". It is not called
	// again while an earlier question of the same acquire may still be granted.
	Claim(ctx context.Context) (trace string)
	// AcquireEnd is called once for each AcquireStart. When e.Err is nil, the lease's context
	// derives from the one that it returns. It must return a context that derives from ctx.
	AcquireEnd(ctx context.Context, e AcquireEnd) context.Context
	// RenewStart is called before each heartbeat, which may carry many leases. The context
	// it returns, which must derive from ctx, is that of the question to the store.
	RenewStart(ctx context.Context, e RenewStart) context.Context
	// Renewed is called once for each RenewStart, with the context that it returned: when the
	// heartbeat is answered, or as failed when [Config.RequestTimeout] is over, though the answer
	// may still keep the leases.
	Renewed(ctx context.Context, e Renewed)
	// Missed is called for each lease whose heartbeat failed or was
	// late; ctx is the lease's context.
	Missed(ctx context.Context, e Missed)
	// CleanUp is called before the engine asks the store, on no caller's behalf, to free what an
	// acquire or a release without an answer may have left. The context it returns, which must
	// derive from ctx, is that of the question.
	CleanUp(ctx context.Context) context.Context
	// Lost is called once for a lease that is lost, when its context
	// has been cancelled; ctx is that context.
	Lost(ctx context.Context, e Lost)
	// Released is called once for every lease, when its operation has ended and the
	// key was freed, or could not be, or was handed over; ctx is the lease's context.
	Released(ctx context.Context, e Released)
	// StillRuns is called for an operation that has not returned when its lock, which is lost, can
	// be another's; and when the operation has run for [Config.HoldWarning], and each time that it
	// has run for twice as long. ctx is the lease's context.
	StillRuns(ctx context.Context, e StillRuns)
	// Unlocked is called for each operation that runs without its lock, since its caller has chosen
	// that for when the store is down; ctx is the operation's.
	Unlocked(ctx context.Context, e Unlocked)
	// TasksInLine is called by a job adapter when it sees that another number of tasks stands in
	// line for a lock than when it last looked. As long as any do, it looks each 10 s at least.
	TasksInLine(e TasksInLine)
	// Ran is called by packages cronmw and once for each run of a job, and for each tick that was
	// not run here; ctx is that of the call.
	Ran(ctx context.Context, e Run)
	// Fault tells of trouble that no caller gets to see: a wake-up
	// subscription that fails, a clean-up that must be retried.
	Fault(e Fault)
}

// AcquireStart is a lock being asked for.
type AcquireStart struct {
	// Name is the lock's name. It is unbounded: never a metric attribute.
	Name string
	// Limit is how many may have it at once, if it is a limit's name: see [Request].Limit. In an
	// [AcquireEnd] it is the number by which the call was granted or refused. It is 0 for a lock,
	// and for a limit that is closed.
	Limit int
	// Operation is the static name given with [Request].Operation, or "".
	Operation string
	// LongRunning means that the operation goes on for as long as it may: see the option of that
	// name.
	LongRunning bool
	// RefusalExpected means that it is nothing unusual if another owner has the lock: the caller
	// has said so by the option of that name.
	RefusalExpected bool
	// StandBy means that no work is done under the lock: see the option of that name.
	StandBy bool
}

// AcquireEnd is a lock got or not.
type AcquireEnd struct {
	AcquireStart
	// Wait is how long it took.
	Wait time.Duration
	// Attempts counts the questions to the store.
	Attempts int
	// Fence is the fencing token; 0 if Err is not nil.
	Fence int64
	// Contended reports whether another caller had it meanwhile: another
	// process, or another goroutine of this one.
	Contended bool
	// HandedOver reports whether it was handed over inside this process, without asking the store.
	HandedOver bool
	// Holder had the lock when last seen, at the store or in this
	// process; its zero value if there was none, or if it is not known.
	Holder store.Holder
	// HeldFor is how long Holder had had it when the wait ended, if it had it until then: an owner
	// that this process has not seen may have come after it. 0 if it is not known.
	HeldFor time.Duration
	// Held is how many had a slot of the limit when it last refused this call, also if it was
	// granted later; 0 if it never did, and for a lock. More than Limit means that another process
	// has a higher one, or had: a [Fault] tells of that once.
	Held int
	// Err is what the caller gets.
	Err error
}

// RenewStart is a heartbeat about to be sent.
type RenewStart struct {
	// Leases counts the leases in it.
	Leases int
	// Contexts are those of the leases. It may be ranged over only until RenewStart returns.
	Contexts iter.Seq[context.Context]
}

// Renewed is one heartbeat.
type Renewed struct {
	// Leases counts the leases in the batch: Leases = OK + Gone + Failed.
	Leases int
	// OK counts those renewed.
	OK int
	// Gone counts those that the store says are not ours any more.
	Gone int
	// Failed counts those without an answer; they are retried in what is left of their time.
	Failed int
	// Lag is how long after its due time the batch's first lease was sent.
	Lag time.Duration
	// Took is how long the store took.
	Took time.Duration
	// Err is the first failure, or nil.
	Err error
}

// Missed is trouble with the heartbeat of one lease, which is not lost yet.
type Missed struct {
	Name      string
	Operation string
	Fence     int64
	// Lag is how long after its due time the heartbeat was sent. It counts as late
	// from [Config.RequestTimeout] on: by then the lease could have had one more try.
	Lag time.Duration
	// Left is how long the lease may be relied on if no further heartbeat succeeds.
	Left time.Duration
	// Err says why it failed; nil if it was late but succeeded.
	Err error
}

// Lost is a lease lost.
type Lost struct {
	Name      string
	Operation string
	Fence     int64
	// Held is how long the lease was held.
	Held time.Duration
	// Err says why; Err.Left is how long before its deadline the operation was told.
	Err *LostError
}

// Released is the end of an operation.
type Released struct {
	Name      string
	Operation string
	Fence     int64
	// Held is how long the lease was held, up to the release or the loss.
	Held time.Duration
	// Overrun is how long the operation kept running after it was told of the loss; 0 without one.
	Overrun time.Duration
	// Renewals counts the confirmed heartbeats.
	Renewals int
	// HandedOver reports whether the lock went to the next who waited for
	// it in this process: the key is not free.
	HandedOver bool
	// Lost says that, and why, the lease was lost before; nil if it wasn't.
	Lost *LostError
	// Err is set when the key could not be freed; it lapses with its TTL at the latest.
	Err error
}

// StillRuns is an operation that has not returned.
type StillRuns struct {
	Name      string
	Operation string
	Fence     int64
	// Held is how long the lease has been held, up to now or to its loss.
	Held time.Duration
	// Waiting counts the callers of this process who wait for it.
	Waiting int
	// Lost says that, and why, the lease is lost; nil while it is held.
	Lost *LostError
	// Overrun is how long the operation has run on since it was told of the loss; 0 without one.
	Overrun time.Duration
}

// Unlocked is an operation without its lock.
type Unlocked struct {
	// Name is the lock's name. It is unbounded: never a metric attribute.
	Name string
	// Operation is the static name given with [Request].Operation, or "".
	Operation string
	// Outage is for how long the store has not answered: see [Keeper.Outage].
	Outage time.Duration
	// Err is why the lock was not to be had.
	Err error
}

// TasksInLine is how many tasks of a job system stand in line for a lock, in no worker. All
// processes see the same line.
type TasksInLine struct {
	// Name is the lock's name. It is unbounded: never a metric attribute.
	Name string
	// Tasks is how many there are, and Change by how much more than when the process last looked:
	// the sum of all changes is how many it knows of.
	Tasks, Change int
}

// Fault is trouble in the background.
type Fault struct {
	// Doing is what failed: "watch", "clean up", "shut down"; of an adapter such as "configure
	// asynq", "record an answer".
	Doing string
	// Name is the lock's name, or that of one of several. It is
	// unbounded: never a metric attribute.
	Name string
	Err  error
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

// Observers returns an Observer that passes on what it hears to each of these, in order, such as
// logs and traces. Nil ones are left out. The context that one returns is given to the next.
// [store.Holder.Trace] is the first that is not "".
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
