package main

import (
	"context"

	"github.com/hibiken/asynq"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Transfer is the payload of a task.
type Transfer struct{ From, To string }

// transferTasks puts the tasks of mux under the lock of their account.
func transferTasks(mux *asynq.ServeMux, locks *asynqmw.Locks) {
	mux.Handle("transfer", asynqmw.Wrap(locks,
		func(t Transfer) string { return accountLock(t.From) },
		func(ctx context.Context, t Transfer) error { return transfer(ctx, t.From, t.To) }))
}

// worker runs tasks, and begins with three of one account.
func worker(stop context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	keeper, closeLocks := openLocks(redis, observer)
	defer closeLocks()
	option, err := asynqmw.RedisOpt(redis) // the same Redis, for asynq
	must(err)
	tasks := asynq.NewClient(option)
	defer tasks.Close()

	locks, config := asynqmw.Configure(keeper, option, asynq.Config{Concurrency: 20})
	defer locks.Close()

	mux := asynq.NewServeMux()
	transferTasks(mux, locks)
	for range 3 { // elsewhere, as a rule
		_, err := tasks.Enqueue(asynq.NewTask("transfer", []byte(`{"From":"7","To":"8"}`)))
		must(err)
	}
	server := asynq.NewServer(option, config)
	must(server.Start(mux))
	<-stop.Done()
	server.Shutdown()
}
