package asynqmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// standIn has the process wait for a lock on behalf of the first task in its line, which is in
// its queue: so that is woken at the release and not before, also by a holder that knows of no
// line. The process gives the lock back at once; tasks that come meanwhile stand behind the
// first.
//
// It does not wait. Each process waits for a lock once at most, and one does as a rule: that from
// which the first task went back. If it dies, the others look for locks that are free; tasks come
// back by themselves, too.
func (l *line) standIn(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.note(name)
	if c == nil {
		return
	}
	c.vain++
	if c.await {
		return
	}
	c.await = true
	go func() {
		// Until the keeper is shut down, at most.
		lease, err := l.keeper.Acquire(context.Background(), name,
			renewer.Operation("wake tasks in line"))
		l.mu.Lock()
		c.await = false
		l.mu.Unlock()
		if err != nil {
			return
		}
		_ = lease.Release(context.Background()) // else it lapses
		_, _ = l.wakeNext(name, renewer.TasksOver, renewer.Task{Home: *l.home.Load()})
	}()
}

// patience is for how long a task waits in its slot that does so for d as a rule. Where other
// callers always wait for the lock, one that is woken at its release finds it taken: it has to
// stay until its turn has come. So each that left in vain has the next one stay for longer.
func (l *line) patience(name string, d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.contended[name]; c != nil {
		d = min(d, noDeadline) << min(c.vain, mostPatience)
	}
	return d
}
