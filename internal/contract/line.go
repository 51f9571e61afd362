package contract

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Line is a store that also keeps, beside a lock or a limit, the line of tasks
// that want it and wait in no process: each went back to the queue that it came
// from, and is told to come when its turn is near. At most one task of a name
// waits for the lock itself, in the slot of the worker that runs it.
//
// Tasks of each [Task.Home] stand in a line of their own, and are told to come
// by processes of that home. Where tasks of several homes want one lock, the
// lock goes from one home to the other as between any callers who wait in two
// processes: those in a slot.
//
// A task that needs several locks or limits stands in one line at a time. Its
// place in each is as old as the first of them: see [Arrival.Since].
//
// A line is advice. It gives no lock, and losing it costs order and time, but
// never exclusion. Tasks that are told to come and don't are passed over after
// about a second.
//
// Its methods ask once, and may be called concurrently. An error means that the
// store has not answered, or that it refuses.
type Line interface {
	// Arrive notes that a task has come, and returns what it is to do.
	Arrive(ctx context.Context, a Arrival) (Arrived, error)

	// Next notes what became of a task, or of the lock, and returns which tasks
	// are to come next: as many as there is room for, and one more. limit is as
	// [Arrival.Limit].
	Next(ctx context.Context, name Name, limit int, what TaskEvent, task Task) (NextTask, error)
}

// MostTaskDelay is how long a task that stands in a [Line] may stay away at
// most: the line is forgotten some minutes later unless one comes.
const MostTaskDelay = 10 * time.Minute

// Task is one in a line.
type Task struct {
	// Home names what has its queue, such as one database of a job system:
	// processes of a home can tell its tasks to come, and no others can. Two
	// homes may have the same queues and IDs. Letters and digits, or "".
	Home string
	// Queue is where it goes back to. Tasks of one queue come, or don't,
	// together.
	Queue string
	// ID names it in its queue.
	ID string
}

// Arrival is a task that wants a lock.
type Arrival struct {
	Name Name
	// Limit is how many may have the name at once, if it is that of a limit.
	// Tasks are told to ask for as many slots as are free.
	Limit int
	// Task is who has come.
	Task Task
	// For is the task whose place it takes over, with its rank; the zero value
	// for none. It is for a copy that goes back in place of the original.
	For Task
	// Wait means that the task may wait for the lock in its worker's slot. If
	// it is to ask then, the slot of the name is its own, until SlotTTL is
	// over.
	Wait bool
	// SlotTTL is how long it has the slot: whole milliseconds, at least 1.
	SlotTTL time.Duration
	// Since is the [Arrived.Since] of the task's place in another line, 0 for
	// none: if it has no place here, it gets one that is as old.
	Since int64
	// Look means that it only wants to know of its place, which is the answer's
	// Since.
	Look bool
}

// Arrived is what a task that has come is to do.
type Arrived struct {
	// Ask means that it is to ask for the lock now. Otherwise it is to go back:
	// it has a place in the line.
	Ask bool
	// Wait means that it may wait for it in its worker's slot then.
	Wait bool
	// Since is since when it has a place in the line, by the store's clock in
	// microseconds; 0 if it has none.
	Since int64
	// Ahead is how many stand in the line before it, unless Ask.
	Ahead int
	// Holder has the lock, unless Ask; its zero value if the store can't tell.
	Holder store.Holder
	// HeldFor is how long Holder has had it, by the store's clock; 0 if the
	// store can't tell.
	HeldFor time.Duration
	// Held is how many have the limit, unless Ask. Holder is the one whose slot
	// lapses first.
	Held int
}

// TaskEvent is what became of a task, or of the lock that it wanted.
type TaskEvent uint8

const (
	// TaskGranted means that it has the lock.
	TaskGranted TaskEvent = iota
	// TaskGone means that it does not come any more.
	TaskGone
	// TaskMoved means that it stands in another line now: nobody comes in its
	// place.
	TaskMoved
	// TaskLeft means that it has waited in vain, and went back to its queue: it
	// has the first place. Others come when the lock is free.
	TaskLeft
	// TaskMissing means that it was told to come, and that its queue does not
	// have it. It keeps its place if it has come or left since it was told.
	TaskMissing
	// TasksOver means that a holder has released the lock; with a Home alone,
	// one that is no task.
	TasksOver
	// TasksLook means that some time has passed: one that was told to come may
	// not have come to a lock that is free.
	TasksLook
)

// String returns "granted", "gone", "moved", "left", "missing", "over" or
// "look".
func (e TaskEvent) String() string {
	switch e {
	case TaskGranted:
		return "granted"
	case TaskGone:
		return "gone"
	case TaskMoved:
		return "moved"
	case TaskLeft:
		return "left"
	case TaskMissing:
		return "missing"
	case TasksLook:
		return "look"
	default:
		return "over"
	}
}

// NextTask is who comes next.
type NextTask struct {
	// Tasks are to be told to come, and are noted as told.
	Tasks []Task
	// Parked is how many are in the line.
	Parked int
	// Late are some of those that were told to come before, and have not: behind
	// [TasksLook], or if no task was given and none is to be told. If their
	// queue has let one go, it is [TaskMissing].
	Late []Task
}
