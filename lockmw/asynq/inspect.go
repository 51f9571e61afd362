package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
)

// ErrOtherRedis means that the inspector of [InLine] does not see the task that its handler has: it
// is for another Redis, or another database of it, than the server's. Its tasks do not stand in
// line then.
var ErrOtherRedis = errors.New("lockbeat: the inspector of asynqmw.InLine does not see the " +
	"task that this server runs: give it the server's own asynq.RedisConnOpt")

// mostAsked bounds for how long a task waits until the inspector has answered. Tests wait longer.
var mostAsked = 500 * time.Millisecond

// sees reports whether the inspector sees a task that is in its handler, and so is in asynq's Redis
// for certain. It is asked until it does. One that does not answer counts as one that sees it.
func (l *line) sees(ctx context.Context, task renewer.Task) bool {
	if l.seen.Load() {
		return true
	}
	answer := make(chan error, 1)
	go func() {
		_, err := l.inspector.GetTaskInfo(task.Queue, task.ID)
		answer <- err
	}()
	timer := time.NewTimer(mostAsked)
	defer timer.Stop()
	select {
	case err := <-answer:
		l.seen.Store(err == nil)
		if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
			l.tell(fmt.Errorf("%w: %w", renewer.ErrConfig, ErrOtherRedis))
			return false
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

// tell tells the keeper's observer of what keeps tasks from being woken, once until one is again;
// err is nil if one was. It is no single lock's.
func (l *line) tell(err error) {
	if l.faulty.Swap(err != nil) || err == nil {
		return
	}
	if o := l.keeper.Config().Observer; o != nil {
		o.Fault(renewer.Fault{Doing: "wake tasks in line", Err: err})
	}
}
