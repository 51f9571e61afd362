package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

type email struct {
	UserID string
	Text   string
}

func sendEmail(_ context.Context, e email) error {
	fmt.Println("to", e.UserID+":", e.Text)
	return nil
}

// A handler is a function of the payload. One email at a time is sent
// to a user, on whichever server.
func ExampleWrap() {
	// In production a store that other servers reach, such as redisstore.
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	redis := asynq.RedisClientOpt{Addr: "redis:6379"}
	locks, config := asynqmw.Configure(keeper, redis, asynq.Config{Concurrency: 20})
	defer func() { _ = locks.Close() }()

	mux := asynq.NewServeMux()
	mux.Handle("email:send", asynqmw.Wrap(locks,
		func(e email) string { return lockmw.Key("user", e.UserID) }, sendEmail))

	_ = config // In production asynq.NewServer(redis, config).Run(mux) runs tasks.
	task := asynq.NewTask("email:send", []byte(`{"UserID":"u1","Text":"hello"}`))
	fmt.Println(mux.ProcessTask(context.Background(), task))
	// Output:
	// to u1: hello
	// <nil>
}

// A task whose lock another caller has does not run, as a test of the handler
// shows.
func ExampleNotRunError() {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()
	handler := asynqmw.Wrap(asynqmw.ForTest(keeper),
		func(e email) string { return lockmw.Key("user", e.UserID) }, sendEmail)

	err = lockmw.Run(context.Background(), keeper, "user:u1", func(context.Context) error {
		task := asynq.NewTask("email:send", []byte(`{"UserID":"u1"}`))
		return handler.ProcessTask(context.Background(), task) // another call chain
	})
	var notRun *asynqmw.NotRunError
	fmt.Println(errors.As(err, &notRun) && notRun.RetryIn < 2*time.Second,
		errors.Is(err, renewer.ErrBusy))
	// Output:
	// true true
}

// The job of a tick may run again, after a failure or on another node: the
// tick's task is enqueued once.
func ExampleEnqueueOnce() {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "redis:6379"})
	defer func() { _ = client.Close() }()

	due := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC) // of the tick, the same on every node
	for range 3 {
		// The ID of the one task is "report:nightly:20260101T020000Z".
		if err := asynqmw.EnqueueOnce(context.Background(), client, "nightly", due,
			asynq.NewTask("report", nil)); err != nil {
			fmt.Println(err)
		}
	}
}
