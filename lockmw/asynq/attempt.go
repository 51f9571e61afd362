package asynqmw

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/line"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// noDeadline stands for that of a context without one, which asynq's always have.
const noDeadline = 365 * 24 * time.Hour

// attempt is one delivery of a task.
type attempt struct {
	*settings

	visit  *line.Visit
	copyID string // of the copy that goes back in place of the task, on a last attempt

	keeper *renewer.Keeper
	slots  *slots // nil: see slotsKey
	task   *asynq.Task
	name   string
	work   func(context.Context) error

	deadline time.Time     // when asynq times the task out, which counts
	left     time.Duration // until then, when the attempt began
	until    time.Time     // by when the work begins, or the task goes back
	answer   time.Time     // by when asynq must be told at the latest
	moment   time.Duration // for how long it waits in its slot, if it can go back

	last    bool // an error makes asynq archive the task, whatever it is
	counted bool // a refusal uses up an attempt
	inSlot  bool // it waits in its slot if it does not get the lock: see waits
	inRoom  bool // it is counted among those of slots meanwhile
	waited  bool // it has waited, or found no room to
	crowded bool // it found no room to wait
}

// waitShare is the part of a task's time that it may spend before its work begins: an eighth. A
// task that waited for longer would be timed out in the middle of work that fits into its time.
const waitShare = 8

func newAttempt(
	ctx context.Context, k *renewer.Keeper, set *settings, l *line.Line, task *asynq.Task,
	name string, work func(context.Context) error,
) *attempt {
	now := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = now.Add(noDeadline)
	}
	left := deadline.Sub(now)
	retried, _ := asynq.GetRetryCount(ctx)
	most, ours := asynq.GetMaxRetry(ctx)
	from, _ := ctx.Value(slotsKey{}).(*slots)
	a := &attempt{
		settings: set, keeper: k, slots: from, task: task, name: name,
		work: work, deadline: deadline, left: left, moment: set.wait,
		until:   now.Add(left / waitShare),
		answer:  lockmw.AnswerBy(deadline),
		last:    ours && retried >= most,
		counted: ours && from == nil, // what no server calls, nothing counts
	}
	if a.last && set.client != nil {
		a.copyID = rand.Text()
	}
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	a.visit = l.Visit(naming.Of(name, set.limit), line.Task{
		Queue: queue, ID: id, BackAs: a.copyID, Stays: a.mustWait(),
	})
	return a
}

// run tries until asynq may be told the outcome: once, and once more if there
// is room to wait, except on a last attempt.
func (a *attempt) run(ctx context.Context) error {
	if a.counted {
		a.warn()
	}
	for {
		if err := a.standInLine(ctx); err != nil {
			return err
		}
		ran, err := a.try(ctx)
		if ran || err == nil {
			return err // a lock's error in it is of the handler's own making
		}
		refusal := lockmw.RefusalOf(err)
		busy := refusal == lockmw.RefusalHeld && !errors.Is(err, renewer.ErrClosed)
		again, place := a.visit.Refused(err, busy && ctx.Err() == nil)
		if place != nil {
			return a.goBack(ctx, place)
		}
		switch {
		case refusal == lockmw.RefusalSkipped, isReplaced(err):
			return nil
		case refusal == lockmw.RefusalName:
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		case ctx.Err() != nil:
			return err // asynq has settled what becomes of the task, and doesn't listen any more
		case busy && (again || a.mayWait()):
			continue
		case !a.last:
			return &NotRunError{
				Err: err, RetryIn: a.delay(err), Counted: a.counted,
			}
		case a.client != nil:
			return a.requeue(ctx, a.delay(err), err)
		case busy && a.crowded:
			return &NotRunError{Err: err, Archived: true, Crowded: true}
		case !a.pause(ctx, err, a.until):
			return &NotRunError{Err: err, Archived: true, Counted: a.counted}
		}
	}
}

// standInLine asks where the task stands. It returns an error if the task goes back to its queue,
// where it has a place.
func (a *attempt) standInLine(ctx context.Context) error {
	limited, stop := context.WithDeadline(ctx, a.until)
	defer stop()
	wait, place := a.visit.Stand(limited, a.wait)
	if place != nil {
		return a.goBack(ctx, place)
	}
	if wait > 0 {
		a.inSlot, a.moment = true, wait
	}
	return nil
}

// goBack is the refusal of a task with a place.
func (a *attempt) goBack(ctx context.Context, to *line.Place) error {
	if !a.last {
		return &NotRunError{
			Err: to.Err, RetryIn: to.BackIn, Counted: a.counted, InLine: true,
		}
	}
	back := a.requeue(ctx, to.BackIn, to.Err)
	back.InLine = back.Copy != ""
	a.visit.Copied(back.InLine)
	return back
}

// warn says through the keeper's observer, once a handler and with its first task, what would be
// noticed only when tasks meet.
func (a *attempt) warn() {
	a.warned.Do(func() {
		if o := a.keeper.Config().Observer; o != nil {
			o.Fault(renewer.Fault{Doing: "configure asynq", Err: fmt.Errorf(
				"%w: %s: each refusal uses up an attempt", renewer.ErrConfig, unconfigured)})
		}
	})
}

// try runs the work if it gets the lock. The error is the work's if
// that ran, and the lock's otherwise.
func (a *attempt) try(ctx context.Context) (ran bool, err error) {
	left := time.Until(a.until)
	opts := append(slices.Clone(a.newest), // before the policy: without time left it refuses
		a.policy(left), lockmw.Within(left), lockmw.Operation(a.task.Type()))
	opts = maxhold.AddTo(opts, a.maxHold, lockmw.MaxHold)
	if a.strict {
		opts = append(opts, lockmw.Strict())
	}
	if a.limit != nil {
		opts = append(opts, lockmw.AtMostFunc(a.limit))
	}
	if a.waits() && !a.mustWait() { // it comes back
		opts = append(opts, lockmw.RefusalExpected())
	}
	defer a.leaveSlot()
	defer a.visit.Over()
	var own error
	ran, err = lockmw.Run(ctx, a.keeper, a.name, func(operation context.Context) error {
		ctx = operation //nolint:fatcontext // once: what becomes of it is asked for below
		own = a.begin(ctx)
		return own
	}, opts...)
	if ran && a.newest != nil {
		err = outcome(ctx, own, err)
	}
	return ran, err
}

// begin is the work, by a task that waits no longer.
func (a *attempt) begin(ctx context.Context) error {
	a.leaveSlot()
	a.visit.Granted()
	return a.work(context.WithValue(ctx, taskKey{}, a.task))
}

// policy is what to do when another caller has the lock. A task is refused first, and waits after
// that: so those whose locks are free take no room from it. One that may replace others waits from
// the first, as the newest.
func (a *attempt) policy(left time.Duration) lockmw.Option {
	switch {
	case a.skip:
		return lockmw.Skip()
	case a.waits() && a.mustWait():
		return lockmw.Wait(left)
	case a.waits():
		return lockmw.Wait(min(a.moment, left))
	default:
		return lockmw.Refuse()
	}
}

// waits reports whether the task waits in its slot if it does not get the lock.
func (a *attempt) waits() bool { return a.inSlot || a.newest != nil }

// mustWait reports whether asynq archives the task unless it waits.
func (a *attempt) mustWait() bool { return a.last && a.client == nil }

// mayWait reports whether a task that was refused waits now.
func (a *attempt) mayWait() bool {
	again := a.mustWait() && !a.crowded
	if a.newest != nil || a.waited && !again || time.Until(a.until) <= 0 {
		return false
	}
	a.waited = true
	return (a.mustWait() || a.wait > 0) && a.takeSlot()
}

// takeSlot reports whether the task may wait in its worker's slot. Where the number of workers is
// not known, all tasks may.
func (a *attempt) takeSlot() bool {
	a.inSlot = a.slots == nil || a.slots.take(a.waitingFor())
	a.crowded = !a.inSlot
	a.inRoom = a.inSlot && a.slots != nil
	return a.inSlot
}

// leaveSlot is for a task that waits no longer.
func (a *attempt) leaveSlot() {
	if a.inRoom {
		a.slots.leave(a.waitingFor())
	}
	a.inSlot, a.inRoom = false, false
}

func (a *attempt) waitingFor() waitingFor {
	return waitingFor{keeper: a.keeper, name: a.name, last: a.mustWait()}
}

// delay is how long the task stays away.
func (a *attempt) delay(err error) time.Duration { return lockmw.RetryIn(err, a.retryIn) }

// pause waits until the task may ask again that was refused with err, and reports whether it has
// time left then.
func (a *attempt) pause(ctx context.Context, err error, until time.Time) bool {
	ctx, stop := context.WithDeadline(ctx, until)
	defer stop()
	return pause(ctx, a.delay(err))
}

// pause lets d pass, and reports whether ctx goes on then.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
