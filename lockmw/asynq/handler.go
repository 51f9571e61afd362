package asynqmw

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Wrap returns a handler that decodes a task's payload, as JSON, and runs fn under the lock on the
// name that key makes of it. See the package's text for the outcomes.
//
// fn gets a context that ends when asynq's does or when the lock is lost; [Task] has the task. A
// task without a payload has the zero value of T, or a new one if T is a pointer. A payload that
// can't be decoded makes an error that is [ErrPayload], an invalid name one that is
// [renewer.ErrName]; asynq archives the task, and the lock's store is not asked. The handler may be
// called concurrently, and then calls key and fn concurrently. It panics if l, key or fn is nil, or
// if no lock can be had with the options.
func Wrap[T any, N lockmw.Name](
	l *Locks, key func(T) N, fn func(context.Context, T) error, opts ...jobs.Option,
) asynq.Handler {
	return WrapWith(l, decodeJSON[T], key, fn, opts...)
}

// decodeJSON is json.Unmarshal. An object that has a name twice is no error, as it is in what an
// HTTP client sends: here the key and the work come from one parsed value, and payloads from
// programs of one's own.
func decodeJSON[T any](data []byte) (payload T, err error) {
	into := wire.Into(&payload)
	if len(data) > 0 {
		err = json.Unmarshal(data, into)
	}
	return payload, err
}

// WrapWith is [Wrap] for payloads that are not JSON. decode gets the payload, even if that is empty,
// and may be called concurrently.
func WrapWith[T any, N lockmw.Name](
	l *Locks, decode func(payload []byte) (T, error), key func(T) N,
	fn func(context.Context, T) error, opts ...jobs.Option,
) asynq.Handler {
	if l == nil || decode == nil || key == nil || fn == nil {
		panic("lockbeat: asynqmw.Wrap needs locks (asynqmw.Configure), a key function and a " +
			"function, and WrapWith one that decodes")
	}
	run := wrap(l, key, fn, opts)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		payload, err := decode(task.Payload())
		if err != nil {
			return unusable(task, fmt.Sprintf("it is no %v", reflect.TypeFor[T]()), err)
		}
		return run(ctx, task, payload)
	})
}

// Middleware returns what mux.Use takes, to run every handler of a mux under a lock, or one
// handler: Middleware(locks, key)(handler). The handler gets the task as it is. Otherwise it is like
// [Wrap]. It panics if l, key or the handler is nil.
func Middleware[N lockmw.Name](
	l *Locks, key func(*asynq.Task) N, opts ...jobs.Option,
) asynq.MiddlewareFunc {
	if l == nil || key == nil {
		panic("lockbeat: asynqmw.Middleware needs locks (asynqmw.Configure) and a key function")
	}
	type call struct {
		task *asynq.Task
		next asynq.Handler
	}
	run := wrap(l, func(c call) N { return key(c.task) }, func(ctx context.Context, c call) error {
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

// wrap is jobs.Wrap for tasks.
func wrap[T any, N lockmw.Name](
	l *Locks, key func(T) N, fn func(context.Context, T) error, opts []jobs.Option,
) func(context.Context, *asynq.Task, T) error {
	if l.line {
		opts = append([]jobs.Option{jobs.InLine(l.redis)}, opts...)
	}
	run := jobs.Wrap(l.keeper, key, fn, opts...)
	return func(ctx context.Context, task *asynq.Task, args T) error {
		d, counted := l.delivery(ctx, task)
		if counted {
			l.warn()
		}
		return l.answer(run(context.WithValue(ctx, taskKey{}, task), d, args), counted)
	}
}

// delivery is what asynq says of a task, and whether a refusal of it uses up an attempt.
func (l *Locks) delivery(ctx context.Context, task *asynq.Task) (d jobs.Delivery, counted bool) {
	d.Kind = task.Type()
	d.Queue, _ = asynq.GetQueueName(ctx)
	d.ID, _ = asynq.GetTaskID(ctx)
	d.Rank = rankOf(task)
	d.Slots, _ = ctx.Value(slotsKey{}).(*jobs.Slots)
	retried, _ := asynq.GetRetryCount(ctx)
	most, ours := asynq.GetMaxRetry(ctx)
	d.Last = ours && retried >= most
	if d.Last && l.copies {
		d.Copy = l.redis.copier(ctx, task)
	}
	return d, ours && d.Slots == nil // what no server calls, nothing counts
}

// warn says through the keeper's observer, with the first task, what would be noticed only when
// tasks meet.
func (l *Locks) warn() {
	l.warned.Do(func() {
		if o := l.keeper.Config().Observer; o != nil {
			o.Fault(renewer.Fault{Doing: "configure asynq", Err: fmt.Errorf(
				"%w: %s: each refusal uses up an attempt", renewer.ErrConfig, unconfigured)})
		}
	})
}

// taskKey is where a handler's context has its task.
type taskKey struct{}

// Task returns the task that a handler of [Wrap] or [Middleware] runs, from the handler's context or
// one made of it; nil from any other context. Its ResultWriter has the task's ID and takes its
// result; it has none where no server calls the handler, as in a test.
func Task(ctx context.Context) *asynq.Task {
	task, _ := ctx.Value(taskKey{}).(*asynq.Task)
	return task
}
