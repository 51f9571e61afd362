package asynqmw

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Handle returns a handler that decodes a task's payload, as JSON, and runs fn under the lock on
// the key that key derives from it. The lock is also the task type's own, so that types never share
// one, unless [SharedKey] is given. See the package's text for the outcomes.
//
// fn gets a context that ends when asynq's does or when the lock is lost; [Task] has the task. A
// task without a payload, such as asynq.NewTask("report", nil), has the zero value of T, or a new
// one if T is a pointer. A payload that can't be decoded makes an error that is [ErrPayload], an
// empty or too long key one that is [renewer.ErrName]; asynq archives the task, and the lock's
// store is not asked. The handler may be called concurrently, and then calls key and fn
// concurrently. It panics if k, key or fn is nil.
func Handle[T any](
	k *renewer.Keeper, key func(T) string, fn func(context.Context, T) error, opts ...Option,
) asynq.Handler {
	return Codec[T](decodeJSON[T]).Handle(k, key, fn, opts...)
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

// Codec decodes payloads that are not JSON, for its [Codec.Handle]. It gets the payload, even if
// that is empty, and may be called concurrently.
type Codec[T any] func(payload []byte) (T, error)

// Handle is the function [Handle], except that c decodes the payloads. It panics if c is nil, too.
func (c Codec[T]) Handle(
	k *renewer.Keeper, key func(T) string, fn func(context.Context, T) error, opts ...Option,
) asynq.Handler {
	if c == nil || k == nil || key == nil || fn == nil {
		panic("lockbeat: asynqmw.Handle needs a keeper (renewer.New), a key function and a " +
			"function, and a Codec one that decodes")
	}
	run := wrap(k, key, fn, opts)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		payload, err := c(task.Payload())
		if err != nil {
			return unusable(task, fmt.Sprintf("it is no %v", reflect.TypeFor[T]()), err)
		}
		return run(ctx, task, payload)
	})
}

// Middleware returns what mux.Use takes, to run every handler of a mux under a lock, or one
// handler: Middleware(k, key)(handler). The handler gets the task as it is. key derives the
// key from it; the error that it returns, or an empty or too long key, makes asynq archive the
// task: an error that is [ErrPayload], or [renewer.ErrName]. Otherwise it is like [Handle]. It
// panics if k, key or the handler is nil.
func Middleware(
	k *renewer.Keeper, key func(*asynq.Task) (string, error), opts ...Option,
) asynq.MiddlewareFunc {
	if k == nil || key == nil {
		panic("lockbeat: asynqmw.Middleware needs a keeper (renewer.New) and a key function")
	}
	type call struct {
		key  string
		task *asynq.Task
		next asynq.Handler
	}
	run := wrap(k, func(c call) string { return c.key }, func(ctx context.Context, c call) error {
		return c.next.ProcessTask(ctx, c.task)
	}, opts)
	return func(next asynq.Handler) asynq.Handler {
		if next == nil {
			panic("lockbeat: asynqmw.Middleware needs a handler to put the lock around")
		}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			name, err := key(task)
			if err != nil {
				return unusable(task, "its key function failed", err)
			}
			return run(ctx, task, call{name, task, next})
		})
	}
}

// wrap is jobs.Wrap for tasks.
func wrap[T any](
	k *renewer.Keeper, key func(T) string, fn func(context.Context, T) error, opts []Option,
) func(context.Context, *asynq.Task, T) error {
	s := new(settings)
	for _, o := range opts {
		o(s)
	}
	run := jobs.Wrap(k, key, fn, s.common...)
	return func(ctx context.Context, task *asynq.Task, args T) error {
		d, counted := s.delivery(ctx, task)
		if counted {
			s.warn(k)
		}
		return s.answer(run(context.WithValue(ctx, taskKey{}, task), d, args), counted)
	}
}

// delivery is what asynq says of a task, and whether a refusal of it uses up an attempt.
func (s *settings) delivery(ctx context.Context, task *asynq.Task) (d jobs.Delivery, counted bool) {
	d.Kind = task.Type()
	d.Queue, _ = asynq.GetQueueName(ctx)
	d.ID, _ = asynq.GetTaskID(ctx)
	d.Rank = rankOf(task)
	d.Slots, _ = ctx.Value(slotsKey{}).(*jobs.Slots)
	retried, _ := asynq.GetRetryCount(ctx)
	most, ours := asynq.GetMaxRetry(ctx)
	d.Last = ours && retried >= most
	if d.Last && s.client != nil {
		d.Copy = s.copier(ctx, task)
	}
	return d, ours && d.Slots == nil // what no server calls, nothing counts
}

// warn says through the keeper's observer, once a handler and with its first task, what would be
// noticed only when tasks meet.
func (s *settings) warn(k *renewer.Keeper) {
	s.warned.Do(func() {
		k.Observer().Fault(renewer.Fault{Doing: "configure asynq", Err: fmt.Errorf(
			"%w: %s: each refusal uses up an attempt", renewer.ErrConfig, unconfigured)})
	})
}

// taskKey is where a handler's context has its task.
type taskKey struct{}

// Task returns the task that a handler of [Handle] or [Middleware] runs, from the handler's context
// or one made of it; nil from any other context. Its ResultWriter has the task's ID and takes its
// result, which asynq keeps for as long as asynq.Retention says; it has none where no server calls
// the handler, as in a test. A copy that [Requeue] made has an ID of its own.
func Task(ctx context.Context) *asynq.Task {
	task, _ := ctx.Value(taskKey{}).(*asynq.Task)
	return task
}
