package asynqmw

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
)

// GroupHeader is the header in which an aggregated task has the name of its group: asynq gives
// that to the GroupAggregator only. The GroupAggregator sets it:
//
//	asynq.NewTaskWithHeaders(typ, payload, map[string]string{asynqmw.GroupHeader: group})
const GroupHeader = "Lockbeat-Group"

var errNoGroup = errors.New("it has no header " + GroupHeader + ": make it by " +
	"asynq.NewTaskWithHeaders in the GroupAggregator")

// GroupOf returns the group that an aggregated task was made of, by its [GroupHeader]. The error
// means that the task has none. It is a key function for [Middleware], as [HandleGroup] has one.
func GroupOf(task *asynq.Task) (string, error) {
	group := task.Headers()[GroupHeader]
	if group == "" {
		return "", errNoGroup
	}
	return group, nil
}

// HandleGroup is [Handle] for aggregated tasks: the key is the task's group. A task without
// [GroupHeader] is archived with an error that is [ErrPayload]. Two aggregated tasks of a group
// never run at the same time, nor does one with a task of another type whose key is the group, if
// both are given [SharedKey].
//
// It panics if k or fn is nil.
func HandleGroup[T any](
	k *renewer.Keeper, fn func(context.Context, T) error, opts ...HandleOption,
) asynq.Handler {
	if k == nil || fn == nil {
		panic("lockbeat: asynqmw.HandleGroup needs a keeper (renewer.New) and a function")
	}
	return handle(k, func(task *asynq.Task, _ T) (string, error) { return GroupOf(task) }, fn, opts)
}
