package main

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// delivered is what became of a task in one process, by the machine's monotonic clock.
type delivered struct {
	ID         string
	User       string
	Seen       int64 // first delivery to the handler
	Placed     int64 // that returned, or ran: by then the task has a place
	Began      int64 // the last run
	Ended      int64
	Deliveries int
	Runs       int
}

// progress is how many tasks of the hot user a process has been given, and how many it has done of
// all.
type progress struct{ Hot, Done int }

// served is what a process says in the end.
type served struct {
	Tasks     []delivered
	Own       int64 // requests to asynq's server that Lockbeat made
	Asynq     int64 // and those that asynq made
	Processes int
	Err       string
}

// taskLog is what has become of the tasks of a process.
type taskLog struct {
	own, asynq atomic.Int64 // requests

	mu    sync.Mutex
	tasks map[string]*delivered
	hot   int
	done  int
	locks sync.Map // of users: *sync.Mutex
}

// handler is the user's own, without a lock.
func (l *taskLog) handler() asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var e email
		if err := json.Unmarshal(task.Payload(), &e); err != nil {
			return err
		}
		return l.send(ctx, e)
	})
}

// slots puts the floor's lock around a handler.
func (l *taskLog) slots(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var e email
		if err := json.Unmarshal(task.Payload(), &e); err != nil {
			return err
		}
		lock, _ := l.locks.LoadOrStore(e.UserID, new(sync.Mutex))
		if mu, ok := lock.(*sync.Mutex); ok {
			mu.Lock()
			defer mu.Unlock()
		}
		return next.ProcessTask(ctx, task)
	})
}

// send is the user's work.
func (l *taskLog) send(ctx context.Context, e email) error {
	id, _ := asynq.GetTaskID(ctx)
	began := monotonic()
	l.note(id, func(d *delivered) {
		d.Runs++
		if d.Placed == 0 {
			d.Placed = began
		}
		d.Began = began
	})
	timer := time.NewTimer(e.Work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := monotonic()
	l.note(id, func(d *delivered) {
		if d.Ended == 0 {
			l.done++
		}
		d.Ended = ended
	})
	return nil
}

// watched notes when a task is given to the handler, and when that returns.
func (l *taskLog) watched(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		seen := monotonic()
		var e email
		if err := json.Unmarshal(task.Payload(), &e); err != nil {
			return err
		}
		l.note(id, func(d *delivered) {
			d.Deliveries++
			if d.Seen == 0 {
				d.Seen, d.User = seen, e.UserID
				if e.UserID == hotName {
					l.hot++
				}
			}
		})
		err := next.ProcessTask(ctx, task)
		answered := monotonic()
		l.note(id, func(d *delivered) {
			if d.Placed == 0 {
				d.Placed = answered
			}
		})
		return err
	})
}

func (l *taskLog) note(id string, change func(*delivered)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.tasks[id]
	if d == nil {
		d = &delivered{ID: id}
		l.tasks[id] = d
	}
	change(d)
}

func (l *taskLog) progress() progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return progress{l.hot, l.done}
}

func (l *taskLog) served() served {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := served{Own: l.own.Load(), Asynq: l.asynq.Load()}
	for _, d := range l.tasks {
		s.Tasks = append(s.Tasks, *d)
	}
	return s
}
