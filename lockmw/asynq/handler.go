package asynqmw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Wrap returns a handler that decodes a task's payload, as JSON, and runs fn
// under the lock on the name that key makes of it. No payload is the zero value
// of T, or a new one if T is a pointer.
//
// fn's context ends when asynq's does, or when the lock is lost; [Task] has the
// task. Wrap panics if l, key or fn is nil, or if no lock can be had by opts.
func Wrap[T any, N lockmw.Name](
	l *Locks, key func(T) N, fn func(context.Context, T) error, opts ...jobs.Option,
) asynq.Handler {
	return WrapWith(l, decodeJSON[T], key, fn, opts...)
}

// decodeJSON is json.Unmarshal. An object that has a name twice is no error, as
// it is in what an HTTP client sends: here the key and the work come from one
// parsed value, and payloads from programs of one's own.
func decodeJSON[T any](data []byte) (payload T, err error) {
	into := wire.Into(&payload)
	if len(data) > 0 {
		err = json.Unmarshal(data, into)
	}
	return payload, err
}

// WrapWith is [Wrap] for payloads that are not JSON. decode gets empty ones,
// too.
func WrapWith[T any, N lockmw.Name](
	l *Locks, decode func(payload []byte) (T, error), key func(T) N,
	fn func(context.Context, T) error, opts ...jobs.Option,
) asynq.Handler {
	if decode == nil {
		panic("lockbeat: asynqmw.WrapWith needs a function that decodes")
	}
	run := handle(l, key, fn, opts)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		payload, err := decode(task.Payload())
		if err != nil {
			return fmt.Errorf("%w of type %q: it is no %v: %w: %w", ErrPayload, task.Type(),
				reflect.TypeFor[T](), err, asynq.SkipRetry)
		}
		return run(ctx, task, payload)
	})
}

// Middleware returns what mux.Use takes, to run each handler of a mux under the
// lock on the name that key makes of a task; or one: Middleware(locks,
// key)(handler).
func Middleware[N lockmw.Name](
	l *Locks, key func(*asynq.Task) N, opts ...jobs.Option,
) asynq.MiddlewareFunc {
	type call struct {
		task *asynq.Task
		next asynq.Handler
	}
	var keyOf func(call) N
	if key != nil {
		keyOf = func(c call) N { return key(c.task) }
	}
	run := handle(l, keyOf, func(ctx context.Context, c call) error {
		return c.next.ProcessTask(ctx, c.task)
	}, opts)
	return func(next asynq.Handler) asynq.Handler {
		if next == nil {
			panic("lockbeat: asynqmw.Middleware needs a handler to put the lock around")
		}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			return run(ctx, task, call{task, next})
		})
	}
}

// handle is jobs.Wrap for tasks.
func handle[T any, N lockmw.Name](
	l *Locks, key func(T) N, fn func(context.Context, T) error, opts []jobs.Option,
) func(context.Context, *asynq.Task, T) error {
	if l == nil || key == nil || fn == nil {
		panic("lockbeat: asynqmw.Wrap and Middleware need locks (asynqmw.Configure), a key " +
			"function and a function")
	}
	if l.line {
		opts = append(slices.Clip(opts), jobs.InLine(l.queue))
	}
	run := jobs.Wrap(l.keeper, key, fn, opts...)
	return func(ctx context.Context, task *asynq.Task, args T) error {
		d, configured := l.delivery(ctx, task)
		if !configured {
			l.warn()
			return errNotConfigured
		}
		return answer(run(context.WithValue(ctx, taskKey{}, task), d, args))
	}
}

// delivery is what asynq says of a task. Where no server calls the handler, it
// says nothing.
func (l *Locks) delivery(
	ctx context.Context, task *asynq.Task,
) (d jobs.Delivery, configured bool) {
	d.Kind, d.Rank = task.Type(), rankOf(task)
	d.Queue, _ = asynq.GetQueueName(ctx)
	d.ID, _ = asynq.GetTaskID(ctx)
	d.Slots, _ = ctx.Value(slotsKey{}).(*jobs.Slots)
	retried, _ := asynq.GetRetryCount(ctx)
	most, served := asynq.GetMaxRetry(ctx)
	d.Last = served && retried >= most
	if d.Last && l.copies {
		d.Copy = l.queue.copier(jobs.Task{Queue: d.Queue, ID: d.ID})
	}
	return d, !served || d.Slots != nil
}

// taskKey is where a handler's context has its task.
type taskKey struct{}

// Task returns the task that a handler runs, from its context or one made of
// it; nil from others.
func Task(ctx context.Context) *asynq.Task {
	task, _ := ctx.Value(taskKey{}).(*asynq.Task)
	return task
}

// ErrPayload means that a task's payload can't be decoded. asynq archives it.
var ErrPayload = errors.New("lockbeat: unusable task")

// NotRunError is what a handler returns for a task that did not run, for want
// of its lock. It is [renewer.ErrBusy], [renewer.ErrUnavailable] or
// [renewer.ErrShutdown], and asynq.RevokeTask if a copy has taken the task's
// place.
type NotRunError struct {
	// Result says what becomes of the task. It comes back within a
	// DelayedTaskCheckInterval of RetryIn, in whole seconds. After a
	// [jobs.OutcomeFailed] asynq archives it.
	jobs.Result
}

// answer makes of a job's result what the handler returns.
func answer(r jobs.Result) error {
	switch r.Outcome {
	case jobs.OutcomeDone:
		if r.Err == nil {
			return nil
		}
		return errors.Join(r.Err, asynq.RevokeTask)
	case jobs.OutcomeUnusable:
		return fmt.Errorf("%w: %w", r.Err, asynq.SkipRetry)
	case jobs.OutcomeBack, jobs.OutcomeCopied:
		return &NotRunError{r}
	case jobs.OutcomeFailed:
		if errors.Is(r.Err, renewer.ErrConfig) && !errors.Is(r.Err, renewer.ErrBusy) {
			return r.Err // a mistake in the program, and no refusal
		}
		return &NotRunError{r}
	default: // it ran, or asynq has settled what becomes of it, and doesn't listen any more
		return r.Err
	}
}

// Error names the lock, as asynq's last error of the task does: log
// [renewer.ErrorText] where names may carry personal data.
func (e *NotRunError) Error() string {
	when := "in about " + e.RetryIn.Round(time.Millisecond).String()
	if e.InLine {
		when = "when its turn is near, or " + when
	}
	var what string
	switch {
	case e.Crowded:
		what = " on its last attempt, since others wait in their workers already (a copy would " +
			"bring it back: asynqmw.NoCopies)"
	case e.Outcome == jobs.OutcomeFailed:
		what = ", and its last attempt may wait no longer"
	case e.Copy != "":
		what = fmt.Sprintf(", it goes on as %s %s", e.Copy, when)
	case e.InLine:
		what = fmt.Sprintf(", it stands in line, and comes back %s, with no attempt used up", when)
	default:
		what = fmt.Sprintf(", it comes back %s, with no attempt used up", when)
	}
	return strings.TrimSpace("lockbeat: task not run" + what + ": " +
		strings.TrimPrefix(e.Err.Error(), "lockbeat: ") + " " + e.Mark)
}

// Unwrap gives errors.Is and errors.As what it is made of.
func (e *NotRunError) Unwrap() []error {
	switch {
	case e.Copy != "":
		return []error{e.Err, asynq.RevokeTask}
	case e.Crowded:
		return []error{e.Err, renewer.ErrQueueFull}
	default:
		return []error{e.Err}
	}
}

// rankHeader is the header of a task that [NewTask] made: when that was, in
// microseconds.
const rankHeader = "Lockbeat-Rank"

// NewTask is asynq.NewTask, and notes in a header when it was called: by that
// lockmw.Replace and lockmw.Latest know the newest task, in whatever order
// workers and retries bring tasks. Other tasks go by when a worker takes them
// up. Tasks of several processes are in order as far as their clocks agree:
// where that is not enough, let the key function give a version, by
// lockmw.Ranked.
//
// Make a task anew each time that it is enqueued. It may be called
// concurrently.
func NewTask(typename string, payload []byte, opts ...asynq.Option) *asynq.Task {
	headers := map[string]string{rankHeader: strconv.FormatInt(nextRank(), 10)}
	return asynq.NewTaskWithHeaders(typename, payload, headers, opts...)
}

var lastRank atomic.Int64

// nextRank is the time, or more than the last.
func nextRank() int64 {
	for {
		last := lastRank.Load()
		next := max(time.Now().UnixMicro(), last+1)
		if lastRank.CompareAndSwap(last, next) {
			return next
		}
	}
}

// rankOf is the rank of a task, 0 for none. One from a clock that is ahead
// would keep out all other tasks until then.
func rankOf(task *asynq.Task) int64 {
	rank, err := strconv.ParseInt(task.Headers()[rankHeader], 10, 64)
	if err != nil || rank < 1 {
		return 0
	}
	return min(rank, time.Now().UnixMicro())
}
