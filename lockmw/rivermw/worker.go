package rivermw

import (
	"context"
	"strconv"

	"github.com/riverqueue/river"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// fewSlots stands for the number of a client's workers, which River does not tell: so without a
// line four of a Worker's jobs wait in workers, and one of a key.
const fewSlots = 8

// Worker returns worker with a lock around its Work, on the key that key derives from a job's
// arguments. The lock is also the job's kind's own, so that kinds never share one, unless
// [jobs.SharedKey] is given. See the package's text for the outcomes.
//
// Its other methods are worker's own. Work gets a context that ends when River's does, or when the
// lock is lost. What Worker returns may be called concurrently, and then calls key and worker
// concurrently. It may be added to the workers of several clients of one database.
//
// It panics if k, key or worker is nil, or if no lock of k can be had with the options.
func Worker[T river.JobArgs](
	k *renewer.Keeper, key func(T) string, worker river.Worker[T], opts ...jobs.Option,
) river.Worker[T] {
	if k == nil || key == nil || worker == nil {
		panic("lockbeat: rivermw.Worker needs a keeper (renewer.New), a key function and a worker")
	}
	var args T
	w := &locked[T]{Worker: worker, kind: args.Kind(), slots: jobs.NewSlots(fewSlots)}
	w.run = jobs.Wrap(k, func(job *river.Job[T]) string { return key(job.Args) }, worker.Work,
		opts...)
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
