package asynqmw

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/line"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
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
// concurrently.
//
// It panics if k, key or fn is nil.
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
	set := newSettings(k, opts)
	l := set.newLine(k)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		payload, err := c(task.Payload())
		if err != nil {
			return unusable(task, fmt.Sprintf("it is no %v", reflect.TypeFor[T]()), err)
		}
		return process(ctx, k, set, l, task, key(payload), func(ctx context.Context) error {
			return fn(ctx, payload)
		})
	})
}

// Middleware returns what mux.Use takes, to run every handler of a mux under a lock, or one
// handler: Middleware(k, key)(handler). The handler gets the task as it is. key derives the
// key from it; the error that it returns, or an empty or too long key, makes asynq archive the
// task: an error that is [ErrPayload], or [renewer.ErrName]. Otherwise it is like [Handle].
//
// It panics if k, key or the handler is nil.
func Middleware(
	k *renewer.Keeper, key func(*asynq.Task) (string, error), opts ...Option,
) asynq.MiddlewareFunc {
	if k == nil || key == nil {
		panic("lockbeat: asynqmw.Middleware needs a keeper (renewer.New) and a key function")
	}
	set := newSettings(k, opts)
	l := set.newLine(k)
	return func(next asynq.Handler) asynq.Handler {
		if next == nil {
			panic("lockbeat: asynqmw.Middleware needs a handler to put the lock around")
		}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			name, err := key(task)
			if err != nil {
				return unusable(task, "its key function failed", err)
			}
			return process(ctx, k, set, l, task, name, func(ctx context.Context) error {
				return next.ProcessTask(ctx, task)
			})
		})
	}
}

// process runs work under the lock on key.
func process(
	ctx context.Context, k *renewer.Keeper, set *settings, l *line.Line, task *asynq.Task,
	key string, work func(context.Context) error,
) error {
	name := key
	if !set.shared {
		name = lockmw.Key(task.Type(), key)
	}
	err := newAttempt(ctx, k, set, l, task, name, work).run(ctx)
	if e := notRun(err); e != nil && e.lock == "" { // else it is a handler's inside of this one
		e.lock = e.refuser(name)
	}
	return err
}

// unusable makes the error for a task that will never be fit to run.
func unusable(task *asynq.Task, what string, err error) error {
	return fmt.Errorf("%w of type %q: %s: %w: %w", ErrPayload, task.Type(), what, err,
		asynq.SkipRetry)
}
