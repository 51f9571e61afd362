package asynqmw

import (
	"context"

	"github.com/hibiken/asynq"
)

// taskKey is where a handler's context has its task.
type taskKey struct{}

// Task returns the task that a handler of [Handle] or [Middleware] runs, from the
// handler's context or one made of it; nil from any other context. Its ResultWriter has the task's
// ID and takes its result, which asynq keeps for as long as asynq.Retention says. Where no server
// calls the handler, as in a test, it has no ResultWriter.
//
// A copy that [Requeue] made has an ID of its own: "Lockbeat-Origin" has the original's.
func Task(ctx context.Context) *asynq.Task {
	task, _ := ctx.Value(taskKey{}).(*asynq.Task)
	return task
}
