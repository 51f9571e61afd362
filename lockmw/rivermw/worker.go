package rivermw

import (
	"context"
	"strconv"

	"github.com/riverqueue/river"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// fewSlots stands for the number of a client's workers, which River does not
// tell: so without a line four of a worker's jobs wait in workers, and one of a
// key.
const fewSlots = 8

// Wrap returns worker with a lock around its Work, on the name that key makes
// of a job's arguments. Work's context ends when River's does, or when the lock
// is lost. What Wrap returns may be added to several clients of one database.
//
// It panics if k, key or worker is nil, or if no lock of k can be had with the
// options.
func Wrap[T river.JobArgs, N lockmw.Name](
	k *renewer.Keeper, key func(T) N, worker river.Worker[T], opts ...jobs.Option,
) river.Worker[T] {
	if k == nil || key == nil || worker == nil {
		panic("lockbeat: rivermw.Wrap needs a keeper (renewer.New), a key function and a worker")
	}
	var args T
	w := &locked[T]{Worker: worker, kind: args.Kind(), slots: jobs.NewSlots(fewSlots)}
	w.run = jobs.Wrap(k, func(job *river.Job[T]) N { return key(job.Args) }, worker.Work, opts...)
	return w
}

// locked is a worker with a lock around its Work.
type locked[T river.JobArgs] struct {
	river.Worker[T]

	kind  string // not the job's own, which may be an alias of it
	slots *jobs.Slots
	stays stays
	run   func(context.Context, jobs.Delivery, *river.Job[T]) jobs.Result
}

// Work implements [river.Worker].
func (w *locked[T]) Work(ctx context.Context, job *river.Job[T]) error {
	if job.JobRow == nil { // as in a test of the worker
		return answer(ctx, false, w.run(ctx, jobs.Delivery{Kind: w.kind}, job))
	}
	d := jobs.Delivery{
		Kind: w.kind, Queue: job.Queue, ID: strconv.FormatInt(job.ID, 10), Slots: w.slots,
		Rank: job.ID,
	}
	marked := isMarked(job.Metadata)
	result := w.stays.until(ctx, marked, func() jobs.Result { return w.run(ctx, d, job) })
	return answer(ctx, marked, result)
}
