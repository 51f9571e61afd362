package rivermw

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

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
		Kind: w.kind, Queue: queueOf(job.JobRow), ID: strconv.FormatInt(job.ID, 10),
		Slots: w.slots, Rank: rankOf(job.JobRow),
	}
	marked := isMarked(job.Metadata)
	result := w.stays.until(ctx, marked, func() jobs.Result { return w.run(ctx, d, job) })
	return answer(ctx, marked, result)
}

// queueOf is what a line calls the queue of a job: of each priority, since River
// may fetch those of one and not those of another.
func queueOf(job *rivertype.JobRow) string { return fmt.Sprint(job.Priority, " ", job.Queue) }

// rankEpoch is early enough for each job, and late enough for ranks until 2089.
var rankEpoch = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// rankOf is when a job was inserted, in ms, and in the last 22 bits its number.
// Numbers alone begin anew in a database that is made anew or restored: all its
// jobs would count as older than those of the one before, and be done unrun.
func rankOf(job *rivertype.JobRow) int64 {
	const bits = 22
	since := max(job.CreatedAt.Sub(rankEpoch).Milliseconds(), 0)
	return since<<bits | job.ID&(1<<bits-1)
}

// markKey is where the metadata of a job in line has the mark of its refusal:
// see [database.State].
const markKey = "lockbeat_line"

// isMarked reports whether a job was refused when it ran last.
func isMarked(metadata []byte) bool {
	var has struct {
		Mark string `json:"lockbeat_line"`
	}
	_ = json.Unmarshal(metadata, &has) // what is no JSON has none
	return has.Mark != ""
}

// answer is what River is told of a delivery. A job that is marked and does not
// go back into line loses its mark: else it would be called when it is snoozed
// by its own worker.
func answer(ctx context.Context, marked bool, r jobs.Result) error {
	switch {
	case r.InLine:
		mark(ctx, r.Mark)
	case marked:
		mark(ctx, nil)
	}
	switch r.Outcome {
	case jobs.OutcomeDone, jobs.OutcomeUnusable:
		if r.Err == nil {
			return nil
		}
		return river.JobCancel(r.Err)
	case jobs.OutcomeBack, jobs.OutcomeEnded:
		return &notRunError{r}
	default: // it ran
		return r.Err
	}
}

// mark has River keep a mark with a job, or none by nil.
func mark(ctx context.Context, value any) {
	_ = river.MetadataSet(ctx, markKey, value) // fails where no client calls the worker
}

// notRunError is the error for a job that is snoozed for want of its lock.
type notRunError struct{ jobs.Result }

// Error says what becomes of the job, and why it did not run. It names the
// lock.
func (e *notRunError) Error() string {
	when := "in about " + e.RetryIn.Round(time.Millisecond).String()
	if e.InLine {
		when = "when its turn is near, or " + when
	}
	return fmt.Sprintf("lockbeat: job not run, it comes back %s, with no attempt used up: %s", when,
		strings.TrimPrefix(e.Err.Error(), "lockbeat: "))
}

// Unwrap gives River its snooze, and others the reason.
func (e *notRunError) Unwrap() []error { return []error{river.JobSnooze(e.RetryIn), e.Err} }

const (
	// River writes what became of jobs every 250 ms: a job that is snoozed
	// can't be called before. One that was called too early would miss its
	// turn, as its lock is often free some milliseconds later. So it stays, and
	// asks where it stands after these pauses: each is twice the one before,
	// 252 ms in all.
	firstPause = 4 * time.Millisecond
	lastPause  = 128 * time.Millisecond
	// stayShare is the part of a job's time for which it stays at most: little
	// beside the eighth for which it may wait for its lock after that.
	stayShare = 64
	// mayStay is how many may stay where few jobs are. Of a limit above one,
	// several are called at once. If those that come too early did not stay,
	// the first in line would be the ones that River is putting back, and the
	// others would wait for them beside free slots.
	mayStay = fewSlots / 2
)

// stays counts the jobs of a worker, and those of them that stay: half of them
// may, or a few. It may be used concurrently.
type stays struct{ here, stay atomic.Int64 }

// until runs a job, again and again as long as it stays: one that was called
// and came too early.
func (s *stays) until(ctx context.Context, called bool, run func() jobs.Result) jobs.Result {
	s.here.Add(1)
	defer s.here.Add(-1)
	began := time.Now()
	result := run()
	if !called || !early(result) {
		return result
	}
	defer s.stay.Add(-1)
	if s.stay.Add(1) > max(s.here.Load()/2, mayStay) {
		return result
	}
	if deadline, ok := ctx.Deadline(); ok {
		limited, stop := context.WithDeadline(ctx, began.Add(deadline.Sub(began)/stayShare))
		defer stop()
		ctx = limited
	}
	for pause := firstPause; pause <= lastPause && early(result); pause *= 2 {
		select {
		case <-time.After(pause):
			result = run()
		case <-ctx.Done():
			return result
		}
	}
	return result
}

// early reports whether a job has a place in line, and no turn yet.
func early(r jobs.Result) bool { return r.Outcome == jobs.OutcomeBack && r.InLine }
