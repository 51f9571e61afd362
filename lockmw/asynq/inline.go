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
	tries   int    // since then
	refused bool   // it was refused once
	ran     bool   // it got the lock
	letGo   func() // ends its hold on the slot of the key; nil without
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

// mayPark reports whether the task goes back to a place in line if it is refused.
func (a *attempt) mayPark() bool { return a.inLine.line != nil && !a.last && !a.skip }

// waitInSlot is for how long the task waits in its slot, at most left.
func (a *attempt) waitInSlot(left time.Duration) time.Duration {
	switch {
	case !a.inSlot:
		return 0
	case a.few:
		return left
	default:
		return min(a.wait, left)
	}
}

// standInLine asks where the task stands. It returns an error if the task goes back to its queue,
// where it has a place. Newcomers of a key on which no tasks have met lately don't ask, nor does a
// task that can't go back, unless it is to be the one that waits in its slot.
func (a *attempt) standInLine(ctx context.Context) error {
	in := &a.inLine
	if in.line == nil || a.skip || in.asks || !in.refused && !in.isContended(a.name) ||
		a.last && a.client != nil {
		return nil
	}
	if a.last {
		in.asks = true
		_, err := in.arrive(ctx, a.name, in.task, true, true)
		return a.ignore(err)
	}
	wait := (a.few || a.wait > 0) && a.takeSlot()
	ahead, err := in.arrive(ctx, a.name, in.task, wait, false)
	switch {
	case err != nil:
		a.leaveSlot()
		return a.ignore(err)
	case ahead >= 0:
		a.leaveSlot()
		return a.parked(ahead, nil)
	}
	in.asks = true
	if wait {
		in.letGo = in.keepSlot(a.name, in.task)
	}
	return nil
}

// ignore has the task do without the line, if its server has not answered.
func (a *attempt) ignore(err error) error {
	if err != nil {
		a.inLine.line = nil
	}
	return nil
}

// refusedInLine says what a task does that was refused: it returns an error if it goes back to its
// queue; otherwise it tries again, or does without the line.
func (a *attempt) refusedInLine(ctx context.Context, err error) error {
	in := &a.inLine
	if !a.mayPark() {
		return nil
	}
	held := lockmw.RefusalOf(err) == lockmw.RefusalHeld
	if held {
		in.met(a.name)
	}
	waited := in.letGo != nil
	a.stopKeeping()
	in.refused = true
	in.tries++
	switch {
	case !held || ctx.Err() != nil:
		if in.asks {
			in.left(a.name, in.task)
		}
		in.line = nil
		return nil
	case waited || in.tries > mostTries:
		in.left(a.name, in.task)
		return a.parked(0, err)
	default:
		in.asks = false
		return nil
	}
}

// goesOnInLine reports whether a task that was refused asks once more where it stands.
func (a *attempt) goesOnInLine() bool { return a.mayPark() }

// grantedInLine is for a task that has got the lock.
func (a *attempt) grantedInLine() {
	a.stopKeeping()
	a.inLine.ran = true
	if a.inLine.line != nil && a.inLine.asks {
		a.inLine.granted(a.name, a.inLine.task)
	}
}

// overInLine is for a task that has tried, and has released the lock if it had it.
func (a *attempt) overInLine() {
	if a.inLine.line != nil && a.inLine.ran {
		a.inLine.over(a.name, a.inLine.task)
	}
}

// stopKeeping is for a task that no longer waits in its slot.
func (a *attempt) stopKeeping() {
	if a.inLine.letGo != nil {
		a.inLine.letGo()
		a.inLine.letGo = nil
	}
}

// parked is the refusal of a task with a place behind n others.
func (a *attempt) parked(n int, err error) error {
	if err == nil {
		err = &renewer.Error{
			Op: "acquire", Name: a.name, Kind: renewer.ErrHeld,
			Err: fmt.Errorf("%d tasks stand in line before it", n),
		}
	}
	in := a.keeper.Config().TTL + time.Duration(n)*perRank
	return &NotRunError{
		Err: err, RetryIn: min(in, renewer.MostTaskDelay), Late: a.late(),
		Counted: a.counted, InLine: true,
	}
}
