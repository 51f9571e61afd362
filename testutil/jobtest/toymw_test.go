package jobtest_test

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Handle returns what a Toy's Step runs: fn, under the lock on the name that
// key makes of a job.
func Handle[T any, N lockmw.Name](
	q *Toy[T], k *renewer.Keeper, key func(T) N, fn func(context.Context, T) error,
	opts ...jobs.Option,
) func(context.Context, string, T) (time.Duration, string, error) {
	run := jobs.Wrap(k, key, fn, append(opts, jobs.InLine(toyLine[T]{q}))...)
	return func(ctx context.Context, id string, args T) (time.Duration, string, error) {
		d := jobs.Delivery{Kind: "toy", ID: id}
		q.Do(id, func(j *toyJob[T]) { d.Rank = j.number })
		r := run(ctx, d, args)
		switch r.Outcome {
		case jobs.OutcomeBack, jobs.OutcomeEnded:
			return r.RetryIn, r.Mark, nil
		case jobs.OutcomeDone: // an error of its own would be told here
			return 0, "", nil
		default: // it ran, or has no usable name
			return 0, "", r.Err
		}
	}
}

// toyLine is the queue of jobs in line.
type toyLine[T any] struct{ *Toy[T] }

func (q toyLine[T]) Home(context.Context, jobs.Task) (string, error) { return q.Name, nil }

func (q toyLine[T]) State(mark string, job jobs.Task) (state jobs.State, err error) {
	q.Do(job.ID, func(j *toyJob[T]) {
		switch {
		case j.stop != nil:
			state = jobs.StateRunning
		case j.due.Before(time.Now()):
			state = jobs.StateComing
		case j.note == mark:
			state = jobs.StateWaiting
		}
	})
	return state, nil // StateGone is its zero value
}

func (q toyLine[T]) Run(job jobs.Task) error {
	err := errors.New("it does not wait any more")
	q.Do(job.ID, func(j *toyJob[T]) {
		if j.stop == nil {
			j.due, err = j.due.Add(-24*time.Hour), nil // due, and before those that came later
		}
	})
	return err
}
