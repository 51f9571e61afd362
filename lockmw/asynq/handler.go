package asynqmw

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
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
