package jobs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

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

// say says what became of a task, and wakes the next one, without waiting for
// that. What it does not do, since too much is under way or a server does not
// answer, is done when tasks come back by themselves.
func (l *line) say(lock names.Want, what contract.TaskEvent, task contract.Task) {
	if !l.takeRoom() {
		return
	}
	go func() {
		defer l.leaveRoom()
		l.wakeNext(lock, what, task)
	}()
}

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

// wakeNext is say, and waits. It returns what the line said last: nothing if it
// can't be asked, or if there is no task and the keeper is shut down. A task
// that was woken and has left its queue without asking for the lock, as
// something around the handler has refused it, gives up its place: its queue
// brings it back. If the store can't be asked, as while the slot of a cluster
// is moving, the process looks at the line again later: no other event may come
// by which the next task would be woken.
func (l *line) wakeNext(
	lock names.Want, what contract.TaskEvent, task contract.Task,
) contract.NextTask {
	name := nameOf(lock)
	select {
	case <-l.keeper.ShuttingDown():
		if task.ID == "" {
			l.seen(lock, 0)
			return contract.NextTask{}
		}
	default:
	}
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
		if next.Parked == 0 {
			return next
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
