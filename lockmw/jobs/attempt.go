package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// noDeadline stands for that of a context without one.
const noDeadline = 365 * 24 * time.Hour

// waitShare is the part of a job's time that it may spend before its work
// begins: an eighth. A job that waited for longer would be timed out in the
// middle of work that fits into its time.
const waitShare = 8

// attempt is one delivery of a job.
type attempt struct {
	*handler
	Delivery

	visit  *visit
	copyID string // ID of the one that goes back in place of the job, on a last attempt
	set    names.Set
	work   func(context.Context) error

	until  time.Time     // by when the work begins, or the job goes back
	answer time.Time     // by when the framework must be told at the latest
	moment time.Duration // for how long it waits in its slot, if it can go back

	inSlot  bool // it waits in its slot if it does not get the lock: see waits
	inRoom  bool // it is counted among those of Slots meanwhile
	waited  bool // it has waited, or found no room to
	crowded bool // it found no room to wait
}

func newAttempt(
	ctx context.Context, h *handler, d Delivery, set names.Set, work func(context.Context) error,
) *attempt {
	now := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = now.Add(noDeadline)
	}
	a := &attempt{
		handler: h, Delivery: d, set: set, work: work, moment: h.Wait,
		until:  now.Add(deadline.Sub(now) / waitShare),
		answer: scope.AnswerBy(deadline),
	}
	if a.Last && a.Copy != nil {
		a.copyID = rand.Text()
	}
	var wants []names.Want // of which a line alone needs to know
	if h.line != nil {
		wants = set.Narrowest()
	}
	a.visit = h.line.visit(wants, d, a.copyID, a.mustWait())
	return a
}

// run tries until the framework may be told the outcome: once, and once more if
// there is room to wait, except on a last attempt.
func (a *attempt) run(ctx context.Context) Result {
	for {
		if place := a.standInLine(ctx); place != nil {
			result, _ := a.settle(ctx, situation{}, place.Err, place)
			return result
		}
		result, ran := a.try(ctx)
		if ran {
			return result // a lock's error in it is of the function's own making
		}
		if result, settled := a.refused(ctx, result.Err); settled {
			return result
		}
	}
}

// standInLine asks where the job stands. It returns a place if the job goes
// back to its queue.
func (a *attempt) standInLine(ctx context.Context) *place {
	limited, stop := context.WithDeadline(ctx, a.until)
	defer stop()
	moment := a.Wait
	if a.Last { // it stands as a copy: see mayWait
		moment = 0
	}
	wait, place := a.visit.stand(limited, moment)
	if wait > 0 {
		a.inSlot, a.moment = true, wait
	}
	return place
}

// refused is for a job that did not get the lock, with err. It reports false if
// the job is to ask again.
func (a *attempt) refused(ctx context.Context, err error) (result Result, settled bool) {
	s := situation{Refusal: refusalOf(err), Ended: ctx.Err() != nil}
	busy := s.Refusal == adapter.RefusalBusy && !errors.Is(err, renewer.ErrLimitClosed) && !s.Ended
	again, place := a.visit.refused(err, busy)
	s.Wait = busy && place == nil && (again || a.mayWait())
	s.Crowded = busy && a.crowded
	return a.settle(ctx, s, err, place)
}

// settle does what is decided for a job that did not run for err, and may have
// a place. It reports false if the job is to ask again.
func (a *attempt) settle(
	ctx context.Context, s situation, err error, place *place,
) (result Result, settled bool) {
	s.Last, s.Copies, s.Place = a.Last, a.Copy != nil, place != nil
	r := notRun(decide(s), a.set, err)
	switch r.Outcome {
	case outcomeAgain:
		return r, false
	case outcomePause:
		switch {
		case a.pause(ctx, err, a.until):
			return r, false
		case ctx.Err() != nil:
			s.Ended = true
			return a.settle(ctx, s, err, place)
		}
		r.Outcome = OutcomeFailed
	case OutcomeFailed:
		r.Crowded = s.Crowded
	case OutcomeDone:
		r.Err = nil
	case OutcomeBack, OutcomeEnded, OutcomeCopied:
		r.RetryIn, r.InLine = a.delay(err), s.Place
		if s.Place {
			r.RetryIn = place.BackIn
		}
	}
	if r.Outcome == OutcomeCopied {
		r = a.copied(ctx, r)
	}
	return r, true
}

// try runs the work if it gets the lock, and reports whether it did.
func (a *attempt) try(ctx context.Context) (result Result, ran bool) {
	opt := a.Settings
	a.setPolicy(&opt, max(time.Until(a.until), 1))
	if opt.Operation == "" {
		opt.Operation = a.Kind
	}
	defer a.leaveSlot()
	defer a.visit.over()
	var own error
	ran, err := scope.Run(ctx, a.keeper, a.set, opt, func(operation context.Context) error {
		ctx = operation //nolint:fatcontext // once: what becomes of it is asked for below
		own = a.begin(ctx)
		return own
	})
	if !ran {
		return Result{Err: err}, false
	}
	return a.ranOut(ctx, own, err), true
}

// begin is the work, by a job that waits no longer.
func (a *attempt) begin(ctx context.Context) error {
	a.leaveSlot()
	a.visit.granted()
	return a.work(ctx)
}

// delay is how long the job stays away.
func (a *attempt) delay(err error) time.Duration { return adapter.RetryIn(err, a.retryIn) }

// pause waits until the job may ask again that was refused with err, and
// reports whether it has time left then.
func (a *attempt) pause(ctx context.Context, err error, until time.Time) bool {
	ctx, stop := context.WithDeadline(ctx, until)
	defer stop()
	timer := time.NewTimer(a.delay(err))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// copied has a copy of the job go back, which goes on in its place. It tries
// for as long as the job has time, and never goes back to waiting for the lock,
// not even if an error comes back: the copy may have been taken all the same,
// and then both would run. The ID is the copy's for all tries, so that the
// queue takes one at most.
func (a *attempt) copied(ctx context.Context, r Result) Result {
	why, inLine := r.Err, r.InLine
	err := a.putCopy(ctx, r.RetryIn)
	for err != nil && a.pause(ctx, why, a.answer) {
		err = a.putCopy(ctx, r.RetryIn)
	}
	if err == nil {
		r.Copy = a.copyID
	} else {
		r.Outcome, r.Err = OutcomeFailed, fmt.Errorf("%w; %w", why, err)
		r.RetryIn, r.InLine = 0, false
	}
	if inLine {
		a.visit.copied(err == nil)
	}
	return r
}

// putCopy leaves time to tell the framework: its client may take seconds to
// give up a server that is down.
func (a *attempt) putCopy(ctx context.Context, in time.Duration) error {
	ctx, stop := context.WithDeadline(ctx, a.answer)
	defer stop()
	return a.Copy(ctx, a.copyID, in)
}

// setPolicy says what to do when another caller has the lock, of a job that has
// so much time left. A job is refused first, and waits after that: so those
// whose locks are free take no room from it. One that may replace others waits
// from the first, as the newest. Who is refused waits after that, or comes
// back: that is nothing unusual.
func (a *attempt) setPolicy(opt *option.Settings, left time.Duration) {
	opt.Within, opt.Expected = left, !a.waits() || !a.mustWait()
	switch {
	case opt.Contention == option.Skips:
	case a.waits() && a.mustWait():
		opt.Contention, opt.Wait = option.Waits, left
	case a.waits():
		opt.Contention, opt.Wait = option.Waits, min(a.moment, left)
	default:
		opt.Contention = option.Refuses
	}
}

// waits reports whether the job waits in its slot if it does not get the lock.
func (a *attempt) waits() bool { return a.inSlot || a.isNewest() }

// mustWait reports whether the framework drops the job unless it waits.
func (a *attempt) mustWait() bool { return a.Last && a.Copy == nil }

// mayWait reports whether a job that was refused waits now. One that is Last
// goes back at once if a copy of it can: if its process were killed meanwhile,
// the framework would drop it, unrun.
func (a *attempt) mayWait() bool {
	again := a.mustWait() && !a.crowded
	if a.isNewest() || a.waited && !again || time.Until(a.until) <= 0 {
		return false
	}
	a.waited = true
	return (a.mustWait() || a.Wait > 0 && !a.Last) && a.takeSlot()
}

// takeSlot reports whether the job may wait in its worker's slot. Where the
// number of workers is not known, all jobs may.
func (a *attempt) takeSlot() bool {
	a.inSlot = a.Slots == nil || a.Slots.take(a.waitingFor())
	a.crowded = !a.inSlot
	a.inRoom = a.inSlot && a.Slots != nil
	return a.inSlot
}

// leaveSlot is for a job that waits no longer.
func (a *attempt) leaveSlot() {
	if a.inRoom {
		a.Slots.leave(a.waitingFor())
	}
	a.inSlot, a.inRoom = false, false
}

func (a *attempt) waitingFor() waitingFor {
	return waitingFor{a.keeper, strings.Join(a.set.Texts(), "\n"), a.mustWait()}
}
