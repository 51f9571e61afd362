package asynqmw

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// perRank is how much later than the one before it a task in line comes back by itself.
	perRank = 100 * time.Millisecond
	// mostTries bounds how often a task asks for a lock that the line believes to be free.
	mostTries = 3
)

// inLine is what an attempt knows of its place among the tasks of its key.
type inLine struct {
	*line // nil: it has none

	task    renewer.Task
	asks    bool   // its turn has come, by the line
	waits   bool   // it has the slot of its key then
	tries   int    // in this attempt
	refused bool   // it was refused once
	ran     bool   // it got the lock
	without bool   // the line could not be asked: the task is as one without a line
	copyID  string // of the task that goes back in its place; "" for itself
}

// newInLine is for an attempt whose context is ctx.
func newInLine(ctx context.Context, l *line) inLine {
	id, ok := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	if !ok || queue == "" {
		l = nil // no server calls the handler
	}
	return inLine{line: l, task: renewer.Task{Queue: queue, ID: id}}
}

// isAtHome finds the home of the task, unless it is known. Without one the task has no line.
func (in *inLine) isAtHome(ctx context.Context) bool {
	if in.task.Home == "" {
		in.task.Home = in.findHome(ctx, in.task)
	}
	if in.task.Home == "" {
		in.line = nil
	}
	return in.line != nil
}

// stands reports whether the task goes by a line. One that can't go back waits beside it.
func (a *attempt) stands() bool {
	return a.inLine.line != nil && !a.inLine.without && !a.mustWait() && !a.skip
}

// standInLine asks where the task stands. It returns an error if the task goes back to its queue,
// where it has a place. A newcomer does not ask if no tasks have met on its key lately.
func (a *attempt) standInLine(ctx context.Context) error {
	in := &a.inLine
	limited, stop := context.WithDeadline(ctx, a.until)
	defer stop()
	switch {
	case in.line == nil || !in.isAtHome(limited) || !a.stands() || in.asks:
		return nil
	case !in.refused && !in.isContended(a.name):
		return nil
	}
	wait := max(0, min(in.patience(a.name, a.wait), time.Until(a.until)))
	task := in.task
	instead := in.copied(a.last)
	arrived, err := in.arrive(limited, a.name, in.task, instead, wait)
	switch {
	case err != nil:
		in.without, in.task = true, task
		return nil // its server has not answered: it does without
	case !arrived.Ask:
		return a.parked(ctx, arrived.Ahead, wait == 0, &renewer.Error{
			Op: "acquire", Name: a.name, Kind: renewer.ErrHeld,
			Holder: arrived.Holder, HeldFor: arrived.HeldFor,
			Err: fmt.Errorf("%d before it in line", arrived.Ahead),
		})
	}
	in.asks, in.waits, a.inSlot, a.moment = true, wait > 0, wait > 0, wait
	return nil
}

// copied makes the task that goes back on a last attempt: a copy that has an ID already. It returns
// the original, and otherwise no task.
func (in *inLine) copied(last bool) (original renewer.Task) {
	if last && in.copyID == "" {
		original = in.task
		in.copyID = rand.Text()
		in.task.ID = in.copyID
	}
	return original
}

// refusedInLine says what a task does that was refused: it returns an error if it goes back to its
// queue, and otherwise reports whether it asks once more where it stands.
func (a *attempt) refusedInLine(ctx context.Context, err error) (again bool, back error) {
	in := &a.inLine
	if !a.stands() {
		return false, nil
	}
	in.refused = true
	in.tries++
	switch {
	case lockmw.RefusalOf(err) != lockmw.RefusalHeld || ctx.Err() != nil:
		if in.asks && a.last { // the copy that goes back is another one
			in.gone(a.name, in.task)
		} else if in.asks {
			in.left(a.name, in.task)
		}
		in.without = true
		return false, nil
	case in.waits || in.tries > mostTries:
		in.left(a.name, in.task)
		return false, a.parked(ctx, 0, true, err)
	default:
		in.met(a.name)
		in.asks = false
		return true, nil
	}
}

// grantedInLine is for a task that has got the lock.
func (a *attempt) grantedInLine() {
	in := &a.inLine
	in.ran = true
	if in.line != nil && (in.asks || a.mustWait() && in.isContended(a.name)) {
		in.granted(a.name, in.task)
	}
}

// overInLine is for a task that has tried, and has released the lock if it had it. Where the line
// could not be asked, it may have a place there all the same.
func (a *attempt) overInLine() {
	if a.inLine.line != nil && a.inLine.ran {
		a.inLine.over(a.name, a.inLine.task)
	}
}

// parked is the refusal of a task with a place behind n others. If it is the first, and no task of
// its key waits in a slot, the process waits for the lock in its place.
func (a *attempt) parked(ctx context.Context, n int, alone bool, err error) error {
	a.inLine.checkLater(a.name)
	if n == 0 && alone {
		a.inLine.standIn(a.name)
	}
	in := min(a.keeper.Config().TTL+time.Duration(n)*perRank, renewer.MostTaskDelay)
	if !a.last {
		return &NotRunError{
			Err: err, RetryIn: in, Late: a.late(), Counted: a.counted, InLine: true,
		}
	}
	back := a.requeue(ctx, a.inLine.copyID, in, err)
	back.InLine = back.Copy != ""
	if back.InLine {
		// Once more: the copy may have been looked for before it was there.
		a.inLine.left(a.name, a.inLine.task)
	} else {
		a.inLine.gone(a.name, a.inLine.task)
	}
	return back
}
