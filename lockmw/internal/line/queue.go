// Package line has the tasks of a job system stand in line for locks and limits, in their own
// queue, where they keep no worker: a task whose lock another caller has goes back there, and is
// run when its turn is near.
//
// The line itself is the locks' store's, a [contract.Line]. This package asks it, and tells the
// [Queue] whom to run. It knows no job system: an adapter implements Queue, has a [Line] for each
// handler, and a [Visit] for each delivery of a task.
//
// A task that wants several stands in the line of the one that was busy, and then, if its turn has
// come there, of the next that is. Its place in each is as old as its first: so tasks stay in order
// however often they go from one line to another.
//
// A line gives no lock. If anything of it fails, a task comes back by itself, later than its turn.
package line

import (
	"context"

	"github.com/lockbeat/lockbeat/internal/contract"
)

// Queue is where the tasks of lines wait. Its methods may be called concurrently. Those without a
// context bound themselves.
type Queue interface {
	// Home returns what lines call this queue, a [contract.Task.Home]: the same in all processes.
	// It is given a task that runs in the calling process, and returns an error if it is another
	// queue than that task's.
	Home(ctx context.Context, running contract.Task) (string, error)

	// State returns what a task does that may be in the line for the lock, or the limit, on name.
	State(name string, task contract.Task) (State, error)

	// Run has a task that is [Waiting] run as soon as a worker is free.
	Run(task contract.Task) error
}

// State is what a task does in its queue.
type State uint8

const (
	// Gone means that the task does not come: there is none, or it has run or failed, or its worker
	// would not be called. So is one that was not refused by the lock in question: the line is read
	// from the locks' server, where others may have written into it, and it must give them no power
	// over other tasks.
	Gone State = iota
	// Coming means that it runs as soon as a worker is free.
	Coming
	// Running means that a worker has it, or is about to put it back.
	Running
	// Waiting means that it waits until its time since the lock refused it.
	Waiting
)
