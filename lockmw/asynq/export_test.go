package asynqmw

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// HomeKey is homeKey.
const HomeKey = homeKey

// ErrOtherRedis is errOtherRedis.
var ErrOtherRedis = errOtherRedis

// TaskRedis is a taskRedis, of queue "default".
type TaskRedis struct{ *taskRedis }

// NewTaskRedis returns that of opt.
func NewTaskRedis(opt asynq.RedisConnOpt) TaskRedis { return TaskRedis{&taskRedis{opt: opt}} }

// HomeOf is Home for a running task.
func (r TaskRedis) HomeOf(ctx context.Context, id string) (string, error) {
	return r.Home(ctx, jobs.Task{Queue: "default", ID: id})
}

// StateOf is State of a task that may be in the line for a lock.
func (r TaskRedis) StateOf(name, id string) (jobs.State, error) {
	mark := "[lock_hash=" + renewer.HashName(name, nil) + "]"
	return r.State(mark, jobs.Task{Queue: "default", ID: id})
}

// RunID is Run.
func (r TaskRedis) RunID(id string) error { return r.Run(jobs.Task{Queue: "default", ID: id}) }

// OvertakeID is overtake.
func (r TaskRedis) OvertakeID(id string) error {
	return r.overtake(jobs.Task{Queue: "default", ID: id})
}

// Close ends its client.
func (r TaskRedis) Close() error { return r.close() }

// RankOf is rankOf.
func RankOf(task *asynq.Task) int64 { return rankOf(task) }
