package jobtest_test

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Toy is a job framework of one process. It knows nothing of locks.
type Toy[T any] struct {
	Name   string
	mu     sync.Mutex
	jobs   map[string]*toyJob[T] // by ID
	failed int
}

type toyJob[T any] struct {
	number int64 // one more than that of the job enqueued before
	args   T
	due    time.Time
	note   string
	stop   context.CancelFunc // nil: it waits
}

// Do calls f for the job with an ID, if there is one, and for no other job
// meanwhile.
func (q *Toy[T]) Do(id string, f func(j *toyJob[T])) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.jobs[id]; j != nil {
		f(j)
	}
}

// Step runs the first job that is due. It comes again after a time, with a
// note, or it is done.
func (q *Toy[T]) Step(work func(context.Context, string, T) (time.Duration, string, error)) {
	id, ctx := "", context.Context(nil)
	q.mu.Lock()
	for other, j := range q.jobs {
		first := id == "" || j.due.Before(q.jobs[id].due)
		if j.stop == nil && j.due.Before(time.Now()) && first {
			id = other
		}
	}
	j := q.jobs[id]
	if j != nil {
		ctx, j.stop = context.WithCancel(context.Background())
	}
	q.mu.Unlock()
	if j == nil {
		return
	}
	again, note, err := time.Duration(0), "", error(nil)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		q.Do(id, func(j *toyJob[T]) {
			j.stop()
			if j.due, j.note, j.stop = time.Now().Add(again), note, nil; again == 0 {
				delete(q.jobs, id)
			}
			if err != nil {
				q.failed++
			}
		})
	}()
	again, note, err = work(ctx, id, j.args)
}
