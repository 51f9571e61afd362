package renewer

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// What a line of tasks is made of.
type (
	// Task is a [store.Task].
	Task = store.Task
	// Arrival is a [store.Arrival].
	Arrival = store.Arrival
	// Arrived is a [store.Arrived].
	Arrived = store.Arrived
	// TaskEvent is a [store.TaskEvent].
	TaskEvent = store.TaskEvent
	// NextTask is a [store.NextTask].
	NextTask = store.NextTask
)

// MostTaskDelay is [store.MostTaskDelay].
const MostTaskDelay = store.MostTaskDelay

// What became of a task, or of the lock that it wanted.
const (
	TaskGranted = store.TaskGranted
	TaskGone    = store.TaskGone
	TaskLeft    = store.TaskLeft
	TaskMissing = store.TaskMissing
	TasksOver   = store.TasksOver
	TasksLook   = store.TasksLook
)

// TaskLine is a [Store] that also keeps lines of tasks.
type TaskLine interface {
	Store
	store.Line
}

// Arrive notes that a task has come: see [TaskLine]. It takes at most [Config.RequestTimeout], and
// may be called concurrently, and after [Keeper.Shutdown] too. The error is of kind [ErrConfig] if
// the store keeps no lines of tasks, of kind [ErrName], or else the store's own.
func (k *Keeper) Arrive(ctx context.Context, a Arrival) (Arrived, error) {
	line, err := k.taskLine("stand in the line of", a.Name)
	if err != nil {
		return Arrived{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout)
	defer cancel()
	return line.Arrive(ctx, a)
}

// NextTask notes what became of a task, or of the lock on name, and returns which task of its home
// is to be told to come. For a task without an ID [Keeper.Shutdown] ends it: the error is
// [ErrShutdown] then. Otherwise it is like [Keeper.Arrive].
func (k *Keeper) NextTask(
	ctx context.Context, name string, what TaskEvent, task Task,
) (NextTask, error) {
	const op = "wake the next task of"
	line, err := k.taskLine(op, name)
	if err != nil {
		return NextTask{}, err
	}
	if task.ID == "" {
		select {
		case <-k.shutdown.closed:
			return NextTask{}, &Error{Op: op, Name: name, Kind: ErrShutdown}
		default:
		}
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout)
	defer cancel()
	return line.Next(ctx, name, what, task)
}

// HasTaskLine reports whether the keeper's store keeps lines of tasks, as a [TaskLine]. It asks the
// store nothing.
func (k *Keeper) HasTaskLine() bool {
	_, ok := k.store.(TaskLine)
	return ok
}

var errNoTaskLine = errors.New("the store keeps no lines of tasks: take a keeper on a store that " +
	"is a renewer.TaskLine, such as redisstore on one deployment")

func (k *Keeper) taskLine(op, name string) (TaskLine, error) {
	line, ok := k.store.(TaskLine)
	if !ok {
		return nil, &Error{Op: op, Name: name, Kind: ErrConfig, Err: errNoTaskLine}
	}
	if fault := nameFault(name); fault != nil {
		return nil, &Error{Op: op, Name: name, Kind: ErrName, Err: fault}
	}
	return line, nil
}
