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
func transferTasks(
	mux *asynq.ServeMux, keeper *renewer.Keeper, option asynq.RedisConnOpt, tasks *asynq.Client,
) {
	mux.Handle("transfer", asynqmw.Handle(keeper,
		func(t Transfer) string { return accountLock(t.From) },
		func(ctx context.Context, t Transfer) error { return transfer(ctx, t.From, t.To) },
		asynqmw.SharedKey(),     // the lock is "account:7", not "transfer:account:7"
		asynqmw.InLine(option),  // tasks that wait leave their workers
		asynqmw.Requeue(tasks))) // and is not archived on its last attempt
}

// worker runs tasks, and begins with three of one account.
func worker(stop context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	keeper, closeLocks := openLocks(redis, observer)
	defer closeLocks()
	option, err := asynqmw.RedisOpt(redis) // the same Redis, for asynq
	must(err)
	tasks := asynq.NewClient(option)
	defer tasks.Close()

	mux := asynq.NewServeMux()
	transferTasks(mux, keeper, option, tasks)
	for range 3 { // elsewhere, as a rule
		_, err := tasks.Enqueue(asynq.NewTask("transfer", []byte(`{"From":"7","To":"8"}`)))
		must(err)
	}
	server := asynq.NewServer(option, asynqmw.Configure(asynq.Config{Concurrency: 20}))
	must(server.Start(mux))
	<-stop.Done()
	server.Shutdown()
}
