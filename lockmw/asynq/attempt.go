package asynqmw

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// mostReserve bounds the part of a task's time that is not spent waiting for the lock.
	mostReserve = 5 * time.Second
	// noDeadline stands for that of a context without one, which asynq's always have.
	noDeadline = 365 * 24 * time.Hour
)

// attempt is one delivery of a task.
type attempt struct {
	*settings

	keeper  *renewer.Keeper
	task    *asynq.Task
	name    string
	work    func(context.Context) error
	until   time.Time     // when to give up, before asynq times the task out, which counts
	timeout time.Duration // what asynq gives the task, in whole seconds
	last    bool          // an error makes asynq archive the task, whatever it is
	counted bool          // a refusal uses up an attempt
}

func newAttempt(
	ctx context.Context, k *renewer.Keeper, set *settings, task *asynq.Task, name string,
	work func(context.Context) error,
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
		counted: !configured(ctx),
	}
}

// run tries until asynq may be told the outcome: once, except on a last attempt.
func (a *attempt) run(ctx context.Context) error {
	if a.counted {
		a.warn()
	}
	for {
		ran, err := a.try(ctx)
		if ran || err == nil {
			return err // a lock's error in it is of the handler's own making
		}
		switch refusal := lockmw.RefusalOf(err); {
		case refusal == lockmw.RefusalSkipped:
			return nil
		case refusal == lockmw.RefusalName:
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		case ctx.Err() != nil:
			return err // asynq has settled what becomes of the task, and doesn't listen any more
		case !a.last:
			return &NotRunError{Err: err, RetryIn: a.delay(err), Counted: a.counted}
		case a.client != nil:
			return a.requeue(ctx, err)
		case !a.pause(ctx, a.delay(err)):
			return &NotRunError{Err: err, Archived: true, Counted: a.counted}
		}
	}
}

// warn says through the keeper's observer, once a handler and with its first task, what would be
// noticed only when tasks meet.
func (a *attempt) warn() {
	a.warned.Do(func() {
		if o := a.keeper.Config().Observer; o != nil {
			o.Fault(renewer.Fault{Doing: "configure asynq", Name: a.name, Err: ErrNotConfigured})
		}
	})
}

// try runs the work if it gets the lock. The error is the work's if
// that ran, and the lock's otherwise.
func (a *attempt) try(ctx context.Context) (ran bool, err error) {
	left := time.Until(a.until)
	opts := []lockmw.Option{a.policy(left), lockmw.Within(left), lockmw.Operation(a.task.Type())}
	if a.strict {
		opts = append(opts, lockmw.Strict())
	}
	return lockmw.Run(ctx, a.keeper, a.name, a.work, opts...)
}

// policy is what to do when another caller has the lock.
func (a *attempt) policy(left time.Duration) lockmw.Option {
	switch {
	case a.skip:
		return lockmw.Skip()
	case a.last && a.client == nil:
		return lockmw.Wait(left)
	case a.wait > 0:
		return lockmw.Wait(min(a.wait, left))
	default:
		return lockmw.Refuse()
	}
}

// delay is how long the task stays away.
func (a *attempt) delay(err error) time.Duration { return lockmw.RetryIn(err, a.retryIn) }

// pause lets d pass, and reports whether there is time for another try.
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
