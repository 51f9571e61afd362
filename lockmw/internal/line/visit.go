package line

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// perRank is how much later than the one before it a task in line comes back by itself.
	perRank = 100 * time.Millisecond
	// mostTries bounds how often a task asks for a lock that the line believes to be free.
	mostTries = 3
	// slotSlack is for how much longer than it waits a task that waits in its slot keeps others
	// from doing so, when its process has died.
	slotSlack = time.Second
	// mostDoublings bounds how often the time is doubled for which a task waits in its slot.
	mostDoublings = 3
)

// Visit is one delivery of a task that wants a lock, and what is known of its place. It is for one
// goroutine. Its steps are [Visit.Stand], then [Visit.Granted] and [Visit.Over] or [Visit.Refused],
// after which it may stand again.
type Visit struct {
	line *Line // nil: it has none
	name string
	as   Task
	task store.Task // who has the place, or would have it: the copy once that was announced

	turn   bool // its turn has come, by the line
	inSlot bool // it waits for the lock in its worker's slot then
	tries  int
	met    bool // it was refused once
	ran    bool // it got the lock
	beside bool // it is as one without a line from now on
}

// Task is that of a [Visit].
type Task struct {
	Queue, ID string
	// BackAs is the ID of the copy that goes back in its place; "" if it goes back itself.
	BackAs string
	// Stays means that it can't go back: it waits beside the line.
	Stays bool
}

// Place is that of a task that goes back to its queue.
type Place struct {
	// Err is why: it is renewer.ErrHeld.
	Err error
	// BackIn is after how long it is to come back by itself.
	BackIn time.Duration
}

// Visit begins that of a task that wants the lock on name. A nil Line is one that no task has.
func (l *Line) Visit(name string, of Task) *Visit {
	v := &Visit{line: l, name: name, as: of, task: store.Task{Queue: of.Queue, ID: of.ID}}
	if of.Queue == "" || of.ID == "" {
		v.line = nil // no queue has it
	}
	return v
}

// stands reports whether the task goes by a line.
func (v *Visit) stands() bool { return v.line != nil && !v.beside && !v.as.Stays }

// Stand asks where the task stands. It returns a place if the task goes back to its queue.
// Otherwise it is to ask for the lock, and to wait for it in its worker's slot for as long as is
// returned. A newcomer does not look at the line if no tasks have met for its lock lately. ctx has
// the deadline by which the task waits no longer; moment is for how long tasks wait in their slots
// as a rule.
func (v *Visit) Stand(ctx context.Context, moment time.Duration) (wait time.Duration, to *Place) {
	if v.line == nil {
		return 0, nil
	}
	home := v.line.findHome(ctx, v.task)
	if home == nil {
		v.line = nil
		return 0, nil
	}
	v.task.Home = *home
	if !v.stands() || !v.met && !v.line.isContended(v.name) {
		return 0, nil
	}
	deadline, _ := ctx.Deadline()
	wait = v.line.patience(v.name, moment, max(time.Until(deadline), 0))
	arrived, err := v.arrive(ctx, wait)
	switch {
	case err != nil:
		v.beside = true // its server has not answered: it does without
		return 0, nil
	case !arrived.Ask:
		return 0, v.park(arrived.Ahead, wait == 0, &renewer.Error{
			Op: "acquire", Name: v.name, Kind: renewer.ErrHeld,
			Holder: arrived.Holder, HeldFor: arrived.HeldFor,
			Err: fmt.Errorf("%d before it in line", arrived.Ahead),
		})
	}
	v.turn, v.inSlot = true, wait > 0
	return wait, nil
}

func (v *Visit) arrive(ctx context.Context, wait time.Duration) (store.Arrived, error) {
	ctx, cancel := v.line.limited(ctx)
	defer cancel()
	var original store.Task
	if v.as.BackAs != "" {
		original, v.task.ID = v.task, v.as.BackAs
		original.ID = v.as.ID
	}
	return v.line.store.Arrive(ctx, store.Arrival{
		Name: v.name, Task: v.task, For: original, Wait: wait > 0, SlotTTL: wait + slotSlack,
	})
}

// Refused is for a task that did not get the lock, with err: if it was busy, another caller has it.
// It returns a place if the task goes back to its queue; otherwise it reports whether the task is
// to stand once more.
func (v *Visit) Refused(err error, busy bool) (again bool, to *Place) {
	if !v.stands() {
		return false, nil
	}
	v.met = true
	v.tries++
	switch {
	case !busy:
		if v.turn {
			v.say(store.TaskLeft)
		}
		v.beside = true
		return false, nil
	case v.inSlot || v.tries > mostTries:
		v.say(store.TaskLeft)
		return false, v.park(0, true, err)
	default:
		v.line.met(v.name)
		v.turn = false
		return true, nil
	}
}

// Granted is for a task that has got the lock: the next one is woken, so that it is there when the
// lock is free.
func (v *Visit) Granted() {
	v.ran = true
	if v.line != nil && (v.turn || v.as.Stays && v.line.isContended(v.name)) {
		v.line.served(v.name)
		v.say(store.TaskGranted)
	}
}

// Over is for a task that has tried, and has released the lock if it had it. Where the line could
// not be asked, it may have a place there all the same.
func (v *Visit) Over() {
	if v.line != nil && v.ran {
		v.say(store.TasksOver)
	}
}

// Copied is for a task with a place that goes back as a copy: it is there now, or, if not ok, could
// not be made. It may have been looked for before.
func (v *Visit) Copied(ok bool) {
	if ok {
		v.say(store.TaskLeft)
	} else {
		v.say(store.TaskGone)
	}
}

func (v *Visit) say(what store.TaskEvent) { v.line.say(v.name, what, v.task) }

// park is for a task with a place behind n others. If it is the first, and no task waits in a slot,
// the process waits for the lock in its place.
func (v *Visit) park(n int, alone bool, err error) *Place {
	v.line.lookLater(v.name)
	if n == 0 && alone {
		v.line.waitForFirst(v.name)
	}
	return &Place{Err: err, BackIn: min(
		v.line.keeper.Config().TTL+time.Duration(n)*perRank, store.MostTaskDelay)}
}

// patience is for how long a task waits in its slot that does so for d as a rule. Where other
// callers always wait for the lock, one that is woken at its release finds it taken: it has to
// stay until its turn has come. So each that left in vain has the next one stay for longer.
// left is what it can wait at most.
func (l *Line) patience(name string, d, left time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d = min(d, left)
	if c := l.contended[name]; c != nil {
		for range min(c.vain, mostDoublings) {
			d = min(2*d, left)
		}
	}
	return d
}

// served notes that a task has got its lock.
func (l *Line) served(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.contended[name]; c != nil {
		c.vain = 0
	}
}

// findHome returns what lines call their queue. It asks the queue until it has answered once. It is
// nil if that is another one than the task's, or does not answer in time, or refuses: the task is
// as one without a line then.
func (l *Line) findHome(ctx context.Context, running store.Task) *string {
	if home := l.home.Load(); home != nil {
		return home
	}
	found := make(chan struct{})
	go func() {
		defer close(found)
		if home, err := l.queue.Home(context.WithoutCancel(ctx), running); err != nil {
			l.tell(err)
		} else {
			l.home.Store(&home)
		}
	}()
	limited, cancel := l.limited(ctx)
	defer cancel()
	select {
	case <-found:
	case <-limited.Done():
	}
	return l.home.Load()
}
