package asynqmw

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// slotSlack is for how much longer than it waits a task that waits in its slot keeps others
	// of its key from doing so, when its process has died.
	slotSlack = time.Second
	// mostPatience bounds how often the time is doubled for which a task waits in its slot.
	mostPatience = 3
	// contendedFor is for how long a key on which tasks met is remembered.
	contendedFor = 10 * time.Second
	// mostContended bounds how many are remembered.
	mostContended = 1024
	// The process looks whether a lock is idle although tasks stand in line, since the one that was
	// woken may not have come: so long after it parked or woke one, and then less and less often.
	firstCheck = 200 * time.Millisecond
	lastCheck  = 10 * time.Second
	// mostWaking bounds how many tasks a process wakes at a time.
	mostWaking = 64
	// mostGone bounds how many of those that are to be woken may turn out to be gone at one event,
	// as when tasks were deleted by hand. Each costs two requests.
	mostGone = 1000
	// settleTries and settlePause: a task whose handler has just returned is active until asynq
	// has put it back, which takes it some milliseconds, and on a busy machine longer. Each pause
	// is twice the one before, half a second in all.
	settleTries = 9
	settlePause = 2 * time.Millisecond
)

// line is how a handler has tasks stand in line: it wakes the next ones in asynq's Redis. It may be
// used concurrently.
type line struct {
	keeper *renewer.Keeper
	redis  func() *taskRedis
	home   atomic.Pointer[string] // what lines call that Redis; nil: not known yet
	waking chan struct{}          // has an element for each goroutine that wakes
	faulty atomic.Bool            // tasks can't be woken, and the observer was told

	mu        sync.Mutex
	contended map[string]*contendedKey // by the lock's name
}

// contendedKey is a key on which tasks have met lately.
type contendedKey struct {
	until time.Time
	check *time.Timer   // nil if no task was parked or woken
	due   time.Time     // when it comes, or came
	pause time.Duration // before the next check
	await bool          // the process waits for the lock: see standIn
	vain  int           // so many tasks in a row have left their slots without it
}

// newLine returns nil if tasks can't stand in line: their keeper's store has none.
func newLine(k *renewer.Keeper, redis func() *taskRedis) *line {
	if redis == nil || !k.HasTaskLine() {
		return nil
	}
	return &line{
		keeper: k, redis: redis, waking: make(chan struct{}, mostWaking),
		contended: make(map[string]*contendedKey),
	}
}

// isContended reports whether tasks have met on a key lately.
func (l *line) isContended(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.contended[name]
	return c != nil && time.Now().Before(c.until)
}

// met notes that tasks meet on a key.
func (l *line) met(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(name)
}

// note is met under l.mu. It returns nil if too many keys are contended.
func (l *line) note(name string) *contendedKey {
	now := time.Now()
	c := l.contended[name]
	if c == nil {
		if len(l.contended) >= mostContended {
			for other, o := range l.contended {
				if now.After(o.until) && !o.await {
					l.forget(other)
				}
			}
		}
		if len(l.contended) >= mostContended {
			return nil
		}
		c = new(contendedKey)
		l.contended[name] = c
	}
	c.until = now.Add(contendedFor)
	return c
}

func (l *line) forget(name string) {
	if c := l.contended[name]; c.check != nil {
		c.check.Stop()
	}
	delete(l.contended, name)
}

// checkLater has the process look at the line in a while.
func (l *line) checkLater(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.note(name); c != nil {
		c.pause = firstCheck
		l.checkIn(name, c)
	}
}

// checkIn has the process look at the line when a key's pause is over, under l.mu. A look that
// comes sooner is not put off: so many tasks may come that there would never be one.
func (l *line) checkIn(name string, c *contendedKey) {
	if left := time.Until(c.due); left > 0 && left <= c.pause {
		return
	}
	c.due = time.Now().Add(c.pause)
	if c.check == nil {
		c.check = time.AfterFunc(c.pause, func() { l.check(name) })
	} else {
		c.check.Reset(c.pause)
	}
}

// check looks at the line, and again later as long as tasks stand in it.
func (l *line) check(name string) {
	next, err := l.wakeNext(name, renewer.TasksLook, renewer.Task{Home: *l.home.Load()})
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.contended[name]
	if c == nil || err != nil || next.Parked == 0 || next.Wake {
		return
	}
	c.until = time.Now().Add(contendedFor)
	c.pause = min(2*c.pause, lastCheck)
	l.checkIn(name, c)
}

// granted is for a task that has got the lock: the next one is woken, so that it is there when the
// lock is free. It does not wait.
func (l *line) granted(name string, task renewer.Task) {
	l.mu.Lock()
	if c := l.contended[name]; c != nil {
		c.vain = 0
	}
	l.mu.Unlock()
	l.next(name, renewer.TaskGranted, task)
}

// left is for a task that has waited in vain. It does not wait.
func (l *line) left(name string, task renewer.Task) { l.next(name, renewer.TaskLeft, task) }

// gone is for a task that has waited in vain, and can't go back. It does not wait.
func (l *line) gone(name string, task renewer.Task) { l.next(name, renewer.TaskGone, task) }

// over is for a task that has released the lock. It does not wait.
func (l *line) over(name string, task renewer.Task) { l.next(name, renewer.TasksOver, task) }

// next says what became of a task, and wakes the next one. What it does not do, since too much is
// under way or a server does not answer, is done when tasks come back by themselves.
func (l *line) next(name string, what renewer.TaskEvent, task renewer.Task) {
	select {
	case l.waking <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-l.waking }()
		_, _ = l.wakeNext(name, what, task)
	}()
}

// wakeNext is next, and waits. It returns what the line said last. A task that was woken and has
// left its queue without asking for the lock, as something around the handler has refused it, gives
// up its place: asynq brings it back. If the store can't be asked, as while the slot of a cluster
// is moving, the process looks at the line again later: no other event may come by which the next
// task would be woken.
func (l *line) wakeNext(
	name string, what renewer.TaskEvent, task renewer.Task,
) (next renewer.NextTask, err error) {
	var missing []renewer.Task // of which the line does not know yet
	for range mostGone {
		next, err = l.keeper.NextTask(context.Background(), name, what, task)
		if err != nil && !errors.Is(err, renewer.ErrRejected) &&
			!errors.Is(err, renewer.ErrShutdown) {
			l.checkLater(name)
		}
		if errors.Is(err, renewer.ErrRejected) {
			l.tell(err)
		}
		if err != nil || next.Parked == 0 {
			return next, err
		}
		l.met(name)
		if next.Wake {
			l.checkLater(name)
			if !l.wake(name, next.Task) {
				missing = append(missing, next.Task)
			}
		}
		missing = append(missing, slices.DeleteFunc(next.Late, func(late renewer.Task) bool {
			return l.mayCome(name, late)
		})...)
		if len(missing) == 0 {
			return next, nil
		}
		what, task, missing = renewer.TaskMissing, missing[0], missing[1:]
	}
	return next, nil
}

// find returns what asynq knows of a task: nil without an error if there is none.
func (l *line) find(task renewer.Task) (*asynq.TaskInfo, error) {
	info, err := l.redis().inspector.GetTaskInfo(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, nil //nolint:nilnil // neither
	}
	return info, err
}

// waitsFor reports whether a task waits in its queue since it was refused by the lock on name. Only
// such a task is run before its time: the line is read from the locks' server, where others may
// have written into it, and it must give them no power over other tasks. A copy has no error of its
// own yet; it comes soon.
func waitsFor(name string, task *asynq.TaskInfo) bool {
	switch task.State {
	case asynq.TaskStateRetry:
		return strings.Contains(task.LastErr, mark(name))
	case asynq.TaskStateScheduled:
		return task.Headers[OriginHeader] != "" &&
			time.Until(task.NextProcessAt) < renewer.MostTaskDelay+time.Minute // for the clocks
	default:
		return false
	}
}

// mayCome reports whether a task that was chosen to be woken may still come: it is on its way, or
// is yet to be woken.
func (l *line) mayCome(name string, task renewer.Task) bool {
	info, err := l.find(task)
	switch {
	case err != nil:
		return true // for all we know
	case info == nil:
		return false
	}
	return info.State == asynq.TaskStateActive || info.State == asynq.TaskStatePending ||
		waitsFor(name, info)
}

// wake has asynq run a task of the line now. It reports false if there is no such task any more, or
// it does not wait for the lock: it has run, or has failed, or was archived by hand, or never was
// refused. RunTask would run it all the same. So it does if asynq would not call its handler, since
// its deadline has passed.
func (l *line) wake(name string, task renewer.Task) bool {
	var failed error
	for i := range settleTries {
		info, err := l.find(task)
		switch {
		case err != nil:
			l.tell(err)
			return true // it comes by itself
		case info == nil:
			return false
		}
		switch {
		case info.State == asynq.TaskStatePending: // it is on its way
			return true
		case info.State == asynq.TaskStateActive:
			<-time.After(settlePause << i) // bounded, and in no caller's way
			continue
		case !waitsFor(name, info), !info.Deadline.IsZero() && time.Now().After(info.Deadline):
			return false
		}
		failed = l.redis().inspector.RunTask(task.Queue, task.ID)
		switch {
		case errors.Is(failed, asynq.ErrTaskNotFound):
			return false
		case failed == nil:
			l.tell(nil)
			return true
		}
		<-time.After(settlePause << i) // it may have come by itself meanwhile
	}
	l.tell(failed)
	return true
}

// arrive asks where a task that wants a lock stands. wait is for how long it waits for that in
// its slot.
func (l *line) arrive(
	ctx context.Context, name string, task, instead renewer.Task, wait time.Duration,
) (renewer.Arrived, error) {
	return l.keeper.Arrive(ctx, renewer.Arrival{
		Name: name, Task: task, For: instead, Wait: wait > 0, SlotTTL: wait + slotSlack,
	})
}
