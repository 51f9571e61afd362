package asynqmw

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/internal/line"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// HomeKey is homeKey.
const HomeKey = homeKey

// ErrOtherRedis is errOtherRedis.
var ErrOtherRedis = errOtherRedis

// TaskRedis is a taskRedis, of queue "default".
type TaskRedis struct{ *taskRedis }

// NewTaskRedis is newTaskRedis.
func NewTaskRedis(opt asynq.RedisConnOpt) TaskRedis { return TaskRedis{newTaskRedis(opt)} }

// HomeOf is Home for a running task.
func (r TaskRedis) HomeOf(ctx context.Context, id string) (string, error) {
	return r.Home(ctx, store.Task{Queue: "default", ID: id})
}

// StateOf is State of a task that may be in the line for a lock.
func (r TaskRedis) StateOf(name, id string) (line.State, error) {
	return r.State(name, store.Task{Queue: "default", ID: id})
}

// RunID is Run.
func (r TaskRedis) RunID(id string) error { return r.Run(store.Task{Queue: "default", ID: id}) }

// OvertakeID is overtake.
func (r TaskRedis) OvertakeID(id string) error {
	return r.overtake(store.Task{Queue: "default", ID: id})
}

// Close ends its client.
func (r TaskRedis) Close() error {
	client, _ := r.open()
	return client.Close()
}

// Slots is slots, of a server with so many workers.
type Slots struct{ *slots }

// NewSlots returns the slots of a server with so many workers.
func NewSlots(workers int) Slots { return Slots{newSlots(workers)} }

// Take lets a task wait for a name.
func (s Slots) Take(k *renewer.Keeper, name string, last bool) bool {
	return s.take(waitingFor{keeper: k, name: name, last: last})
}

// Leave ends such a wait.
func (s Slots) Leave(k *renewer.Keeper, name string, last bool) {
	s.leave(waitingFor{keeper: k, name: name, last: last})
}

// Names is for how many names tasks wait, on last attempts and others.
func (s Slots) Names() int { return len(s.waiting) }
