package jobs

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/internal/contract"
)

// Task is a job in a [Queue], by the Queue and ID of its [Delivery].
type Task struct{ Queue, ID string }

// Queue is where the jobs of a framework wait, as [InLine] needs it. Methods
// may be called concurrently. Those without a context bound themselves.
type Queue interface {
	// Home returns a name for the database that has the queue, 1 to 64 letters
	// and digits: the same in all processes, and another for each database
	// whose jobs may want the same locks. It is given a job that runs in the
	// calling process. An error means that the queue does not have that job, or
	// does not answer: the keeper's observer is told, and jobs don't stand in
	// line.
	Home(ctx context.Context, running Task) (string, error)

	// State returns what a job does that may stand in the line of a lock. It is
	// [StateWaiting] only if the job was put back with this mark: see
	// [Result.Mark].
	State(mark string, job Task) (State, error)

	// Run has a job that is [StateWaiting] run as soon as a worker is free,
	// ahead of those that came later. It returns an error if the job is not
	// there any more.
	Run(job Task) error
}

// marked is a Queue as lines call it: by the names of locks, and in goroutines
// of their own, where a panic would end the process. It is an error instead.
type marked struct{ queue Queue }

func (q marked) home(ctx context.Context, running contract.Task) (string, error) {
	return recovered(func() (string, error) { return q.queue.Home(ctx, taskOf(running)) })
}

func (q marked) state(name string, job contract.Task) (State, error) {
	return recovered(func() (State, error) { return q.queue.State(mark(name), taskOf(job)) })
}

func (q marked) run(job contract.Task) error {
	_, err := recovered(func() (struct{}, error) { return struct{}{}, q.queue.Run(taskOf(job)) })
	return err
}

func taskOf(t contract.Task) Task { return Task{t.Queue, t.ID} }

func recovered[T any](ask func() (T, error)) (got T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the queue of jobs has panicked: %v", p)
		}
	}()
	return ask()
}

// State is what a job does in its queue.
type State uint8

const (
	// StateGone means that the job does not come: there is none, or it has run
	// or failed, or was not refused by the lock in question. (A line read from
	// the locks' server must give those who may write there no power over other
	// jobs.)
	StateGone State = iota
	// StateComing means that it runs as soon as a worker is free.
	StateComing
	// StateRunning means that a worker has it, or is about to put it back.
	StateRunning
	// StateWaiting means that it waits until its time since the lock refused
	// it.
	StateWaiting
)
