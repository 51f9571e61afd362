package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// A line is the locks' store's, a [contract.Line]. This asks it, and tells the
// [Queue] whom to run.
//
// A task that wants several locks stands in the line of the one that was busy,
// and then, if its turn has come there, of the next that is. Its place in each
// is as old as its first: so tasks stay in order however often they go from one
// line to another.
//
// A line gives no lock. If anything of it fails, a task comes back by itself,
// later than its turn.

const (
	// contendedFor is for how long a lock for which tasks met is remembered.
	contendedFor = 10 * time.Second
	// mostContended bounds how many are remembered.
	mostContended = 1024
	// The process looks whether a lock is idle although tasks stand in line,
	// since the one that was woken may not have come: so long after it parked
	// or woke one, and then less and less often.
	firstLook = 200 * time.Millisecond
	lastLook  = 10 * time.Second
)

// line is how one handler has its tasks stand in line. It may be used
// concurrently.
type line struct {
	keeper *renewer.Keeper
	store  contract.Line
	queue  marked
	home   atomic.Pointer[string] // of the queue; nil: not known yet
	waking chan struct{}          // has an element for each goroutine that wakes
	faulty atomic.Bool            // tasks can't be woken, and the observer was told

	mu        sync.Mutex
	contended map[names.ID]*contendedLock
	asking    *asking // the queue for its home; nil: it is not asked now
}

// asking is a question that the queue has not answered yet.
type asking struct {
	over  chan struct{} // closed when it has
	until time.Time     // for so long tasks wait for that
}

// contendedLock is a lock, or a limit, for which tasks have met lately. Guarded
// by line.mu.
type contendedLock struct {
	until  time.Time
	look   *time.Timer   // nil if no task was parked or woken
	due    time.Time     // when it comes, or came
	pause  time.Duration // before the next look
	asking bool          // the process waits for the lock: see waitForFirst
	vain   int           // so many tasks in a row have left their slots without it
	parked int           // so many tasks stood in its line when that was last asked
}

// newLine returns the line of a handler whose locks are k's and whose tasks are
// q's; nil, which is a line that no task has, if k's store keeps none.
func newLine(k *renewer.Keeper, q Queue) *line {
	lines, ok := k.Store().(contract.Line)
	if !ok {
		return nil
	}
	return &line{
		keeper: k, store: lines, queue: marked{q}, waking: make(chan struct{}, mostWaking),
		contended: make(map[names.ID]*contendedLock),
	}
}

// isContended reports whether tasks have met for a lock lately.
func (l *line) isContended(lock names.Want) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.contended[lock.ID()]
	return c != nil && time.Now().Before(c.until)
}

// met notes that tasks meet for a lock.
func (l *line) met(lock names.Want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(lock)
}

// note is met under l.mu. It returns nil if too many locks are contended.
func (l *line) note(lock names.Want) *contendedLock {
	now, name := time.Now(), lock.ID()
	c := l.contended[name]
	if c == nil {
		if len(l.contended) >= mostContended {
			for other, o := range l.contended {
				if now.After(o.until) && !o.asking && o.parked == 0 {
					if o.look != nil {
						o.look.Stop()
					}
					delete(l.contended, other)
				}
			}
		}
		if len(l.contended) >= mostContended {
			return nil
		}
		c = new(contendedLock)
		l.contended[name] = c
	}
	c.until = now.Add(contendedFor)
	return c
}

// lookLater has the process look at the line in a while.
func (l *line) lookLater(lock names.Want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.note(lock); c != nil {
		c.pause = firstLook
		l.lookIn(lock, c, c.pause)
	}
}

// lookIn has the process look at the line when a pause is over, under l.mu. A
// look that comes sooner is not put off: so many tasks may come that there
// would never be one.
func (l *line) lookIn(lock names.Want, c *contendedLock, pause time.Duration) {
	if left := time.Until(c.due); left > 0 && left <= pause {
		return
	}
	c.due = time.Now().Add(pause)
	if c.look == nil {
		c.look = time.AfterFunc(pause, func() { l.look(lock) })
	} else {
		c.look.Reset(pause)
	}
}

// seen notes how many tasks stand in a line, and tells the keeper's observer.
// As long as there are some the process looks again, so that what it has told
// does not grow old.
func (l *line) seen(lock names.Want, parked int) {
	l.mu.Lock()
	c := l.contended[lock.ID()]
	if c == nil && parked > 0 {
		c = l.note(lock)
	}
	if c == nil { // no task is known to stand there, or too many locks are contended
		l.mu.Unlock()
		return
	}
	change := parked - c.parked
	c.parked = parked
	if parked > 0 {
		c.until = time.Now().Add(contendedFor)
		c.pause = cmp.Or(c.pause, lastLook)
		l.lookIn(lock, c, lastLook)
	}
	l.mu.Unlock()
	if change != 0 {
		l.keeper.Observer().TasksInLine(
			renewer.TasksInLine{Name: lock.Name, Tasks: parked, Change: change})
	}
}

// look looks at the line, and again later as long as tasks stand in it.
func (l *line) look(lock names.Want) {
	select {
	case <-l.keeper.ShuttingDown():
		l.seen(lock, 0)
		return
	default:
	}
	var next contract.NextTask
	looks := len(l.waking) < mostWaking
	if looks {
		next = l.wakeNext(lock, contract.TasksLook, contract.Task{Home: *l.home.Load()})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.contended[lock.ID()]
	if c == nil || looks && (next.Parked == 0 || len(next.Tasks) > 0) {
		return
	}
	c.pause = min(2*c.pause, lastLook)
	l.lookIn(lock, c, c.pause)
}

// waitForFirst has the process wait for a lock itself, in the place of the task
// that stands first in the lock's line, and wake that task when it gets the
// lock: so the task is woken at the release and not before, even if the holder
// knows of no line. The process gives the lock back at once; tasks that come
// meanwhile stand behind the first. kind is the task's.
//
// It returns at once. A process waits for a lock once at a time, and as a rule
// only one process does: that from which the first task went back. If it is shut
// down, it wakes that task before. If it dies, the others look for locks that
// are free; tasks come back by themselves, too.
func (l *line) waitForFirst(lock names.Want, kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.note(lock)
	if c == nil {
		return
	}
	c.vain++
	if c.asking {
		return
	}
	c.asking = true
	wakeFirst := func() {
		l.wakeNext(lock, contract.TasksOver, contract.Task{Home: *l.home.Load()})
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-l.keeper.ShuttingDown():
			wakeFirst() // it waits for itself, in another process
			cancel()    // and Shutdown goes on, which waits for nested calls
		case <-ctx.Done():
		}
	}()
	go func() {
		defer cancel()
		lease, err := l.keeper.Acquire(ctx, renewer.Request{
			Name: lock.Name, Limit: lock.Limit, Operation: kind, StandBy: true, Nested: true,
		})
		l.mu.Lock()
		c.asking = false
		l.mu.Unlock()
		if err != nil {
			return
		}
		_ = lease.Release(context.Background()) // else it lapses
		wakeFirst()
	}()
}

// nameOf is what stores call a lock or limit.
func nameOf(w names.Want) contract.Name {
	return contract.Name{Text: w.Name, Limit: w.Limit != nil}
}

// limitOf is how many may have a limit at once.
func limitOf(w names.Want) int {
	if w.Limit == nil {
		return 0
	}
	return max(w.Limit(), 0)
}

const (
	// mostWaking bounds how many tasks a process wakes at a time.
	mostWaking = 64
	// mostGone bounds how many of those that are to be woken may turn out to be
	// gone at one event, as when tasks were deleted by hand. Each costs two
	// requests.
	mostGone = 1000
	// A task whose handler has just returned runs until the queue has it back,
	// which takes some milliseconds, and on a busy machine longer. Each pause
	// is twice the one before, half a second in all.
	backTries = 9
	backPause = 2 * time.Millisecond
)

// takeRoom reports whether a goroutine may wake tasks, until leaveRoom: if a
// queue hangs, no more than mostWaking do.
func (l *line) takeRoom() bool {
	select {
	case l.waking <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *line) leaveRoom() { <-l.waking }

// wakeNext says what became of a task, or of the lock, and wakes the next one.
// It returns what the line said last: nothing if it can't be asked. A task that
// was woken and has left its queue without asking for the lock, as something
// around the handler has refused it, gives up its place: its queue brings it
// back. If the store can't be asked, as while the slot of a cluster is moving,
// the process looks at the line again later: no other event may come by which
// the next task would be woken. What it does not do, as too many are being
// woken, is done at a look, or when tasks come back by themselves.
func (l *line) wakeNext(
	lock names.Want, what contract.TaskEvent, task contract.Task,
) contract.NextTask {
	name := nameOf(lock)
	room := false
	defer func() {
		if room {
			l.leaveRoom()
		}
	}()
	var missing []contract.Task // of which the line does not know yet
	for range mostGone {
		ctx, cancel := l.limited(context.Background())
		next, err := l.store.Next(ctx, name, limitOf(lock), what, task)
		cancel()
		switch {
		case errors.Is(err, renewer.ErrRejected):
			l.tell(err)
			l.seen(lock, 0)
			return contract.NextTask{}
		case err != nil:
			l.lookLater(lock)
			return contract.NextTask{}
		}
		l.seen(lock, next.Parked)
		if next.Parked == 0 || len(next.Tasks)+len(next.Late)+len(missing) == 0 {
			return next
		}
		if room = room || l.takeRoom(); !room {
			return contract.NextTask{Parked: next.Parked}
		}
		if len(next.Tasks) > 0 {
			l.lookLater(lock)
			missing = append(missing, l.wakeAll(lock, next.Tasks)...)
		}
		missing = append(missing, slices.DeleteFunc(next.Late, func(late contract.Task) bool {
			state, err := l.queue.state(lock.Name, late)
			return err != nil || state != StateGone
		})...)
		if len(missing) == 0 {
			return next
		}
		what, task, missing = contract.TaskMissing, missing[0], missing[1:]
	}
	return contract.NextTask{}
}

// limited is ctx for one request.
func (l *line) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.keeper.Config().RequestTimeout)
}

// wakeAll wakes tasks side by side, and returns those that are gone.
func (l *line) wakeAll(lock names.Want, tasks []contract.Task) (gone []contract.Task) {
	here := make([]bool, len(tasks))
	var waking sync.WaitGroup
	for i, task := range tasks[1:] {
		waking.Go(func() { here[i+1] = l.wake(lock.Name, task) })
	}
	here[0] = l.wake(lock.Name, tasks[0])
	waking.Wait()
	for i, task := range tasks {
		if !here[i] {
			gone = append(gone, task)
		}
	}
	return gone
}

// wake has a task of the line run now. It reports false if it is gone.
func (l *line) wake(name string, task contract.Task) bool {
	var failed error
	for i := range backTries {
		state, err := l.queue.state(name, task)
		switch {
		case err != nil:
			l.tell(err)
			return true // it comes by itself
		case state == StateGone:
			return false
		case state == StateComing:
			return true
		case state == StateWaiting:
			if failed = l.queue.run(task); failed == nil {
				l.tell(nil)
				return true
			} // it may have come by itself meanwhile
		}
		<-time.After(backPause << i) // bounded, and in no caller's way
	}
	l.tell(failed)
	return true
}

// tell tells the keeper's observer of what keeps tasks from being woken, once
// until one is again; err is nil if one was. It is no single lock's. Once the
// keeper is shut down, its queue may be closed, which is no fault.
func (l *line) tell(err error) {
	select {
	case <-l.keeper.ShuttingDown():
		return
	default:
	}
	if l.faulty.Swap(err != nil) || err == nil {
		return
	}
	l.keeper.Observer().Fault(renewer.Fault{Doing: "wake tasks in line", Err: err})
}
