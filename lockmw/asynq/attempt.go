package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// mostReserve bounds the part of a task's time that is not spent waiting for the lock.
	mostReserve = 5 * time.Second
	// mostRetryIn bounds the delay of a task that is refused by a lock held for long.
	mostRetryIn = 30 * time.Second
	// noDeadline stands for that of a context without one, which asynq's always have.
	noDeadline = 365 * 24 * time.Hour
)

// errSilent is why an attempt ends that the store leaves no time to run.
var errSilent = fmt.Errorf("%w: it did not answer within the time that the task has", renewer.ErrUnavailable)

// attempt is one delivery of a task.
type attempt struct {
	*settings

	keeper  *renewer.Keeper
	task    *asynq.Task
	name    string
	work    func(context.Context) error
	until   time.Time     // when to give up, lest asynq times the task out, which counts
	timeout time.Duration // what asynq gives the task, in whole seconds
	last    bool          // an error makes asynq archive the task, whatever it is
}

func newAttempt(
	ctx context.Context, k *renewer.Keeper, set *settings, task *asynq.Task, name string, work func(context.Context) error,
) *attempt {
	left := noDeadline
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	retried, _ := asynq.GetRetryCount(ctx)
	most, ours := asynq.GetMaxRetry(ctx)
	return &attempt{
		settings: set, keeper: k, task: task, name: name, work: work,
		until: time.Now().Add(left - min(left/4, mostReserve)),
		// Rounded up: asynq took the time a moment ago.
		timeout: (left + time.Second - 1).Truncate(time.Second),
		last:    ours && retried >= most,
	}
}

// run tries until asynq may be told the outcome: once, except on a last attempt.
func (a *attempt) run(ctx context.Context) error {
	for {
		ran, err := a.try(ctx)
		switch {
		case ran || err == nil:
			return err // a lock's error in it is of the handler's own making
		case errors.Is(err, lockmw.ErrSkipped):
			return nil
		case errors.Is(err, renewer.ErrName):
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		case ctx.Err() != nil:
			return err // asynq has settled what becomes of the task, and doesn't listen any more
		case !a.last:
			return &NotRunError{Err: err, RetryIn: a.delay(err)}
		case a.client != nil:
			return a.requeue(ctx, err)
		case !a.pause(ctx, a.delay(err)):
			return &NotRunError{Err: err, Archived: true}
		}
	}
}

// try runs the work if the lock is to be had. The error is the work's if that ran, and the lock's otherwise.
func (a *attempt) try(ctx context.Context) (ran bool, err error) {
	policy, waits := a.policy()
	opts := []lockmw.Option{policy, lockmw.Operation(a.task.Type())}
	if a.strict {
		opts = append(opts, lockmw.Strict())
	}
	begin := func() bool { return true }
	if left := time.Until(a.until); !waits && left < a.keeper.Config().RequestTimeout {
		var end context.CancelFunc
		ctx, begin, end = gate(ctx, left)
		defer end()
	}
	_, err = lockmw.Do(ctx, a.keeper, a.name, func(ctx context.Context) (struct{}, error) {
		if !begin() {
			return struct{}{}, errSilent
		}
		ran = true
		return struct{}{}, a.work(ctx)
	}, opts...)
	if !ran && errors.Is(err, errSilent) {
		return false, errSilent // rather than one that is a cancellation as well
	}
	return ran, err
}

// policy is what to do when somebody else has the lock, and whether that has a bound of its own.
func (a *attempt) policy() (policy lockmw.Option, waits bool) {
	left := time.Until(a.until)
	switch {
	case a.skip:
		return lockmw.Skip(), false
	case a.last && a.client == nil:
		return lockmw.Wait(left), true
	case a.wait > 0:
		return lockmw.Wait(min(a.wait, left)), true
	default:
		return lockmw.Refuse(), false
	}
}

// gate ends an attempt to which the store gives no answer within d. A wait has its own bound, but one question has
// RequestTimeout, which may be longer than what the task has. The work must begin only if begin says so, and after that is
// not disturbed: that is why a deadline on the context would not do.
func gate(ctx context.Context, d time.Duration) (gated context.Context, begin func() bool, end context.CancelFunc) {
	gated, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(errSilent) })
	return gated, timer.Stop, func() {
		timer.Stop()
		cancel(nil)
	}
}

// delay is how long the task stays away: with jitter, so that tasks refused together do not come back together.
func (a *attempt) delay(err error) time.Duration {
	d := a.retryIn
	switch e, ok := errors.AsType[*renewer.Error](err); {
	case d > 0:
	case errors.Is(err, renewer.ErrUnavailable):
		d = DefaultStoreRetryIn
	case ok:
		// Who has been at it for a minute is hardly done in a second. The TTL left would say less: it is renewed all the time.
		d = max(DefaultRetryIn, min(e.HeldFor/2, mostRetryIn))
	default:
		d = DefaultRetryIn
	}
	return d/2 + rand.N(d)
}

// pause tells whether there is time for another try after d, and lets it pass.
func (a *attempt) pause(ctx context.Context, d time.Duration) bool {
	left := time.Until(a.until)
	if left <= 0 {
		return false
	}
	timer := time.NewTimer(min(d, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return time.Until(a.until) > 0
	case <-ctx.Done():
		return false
	}
}
