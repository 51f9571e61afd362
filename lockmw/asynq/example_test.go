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
func ExampleHandle() {
	// In production a store that other servers reach, such as redisstore.
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	mux := asynq.NewServeMux()
	mux.Handle("email:send", handle(keeper, func(e email) string {
		return e.UserID
	}, sendEmail))

	// In production asynq.NewServer(redis, asynqmw.Decorate(asynq.Config{…})) runs the mux.
	task := asynq.NewTask("email:send", []byte(`{"UserID":"u1","Text":"hello"}`))
	fmt.Println(mux.ProcessTask(context.Background(), task))
	// Output:
	// to u1: hello
	// <nil>
}

// A task whose lock another caller has does not run. asynq gets an
// error that, by Configure, uses up no attempt.
func ExampleNotRunError() {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()
	handler := handle(keeper, func(e email) string { return e.UserID }, sendEmail)

	_, err = lockmw.Do(context.Background(), keeper, "email:send:u1",
		func(context.Context) (string, error) {
			task := asynq.NewTask("email:send", []byte(`{"UserID":"u1"}`))
			return "", handler.ProcessTask(context.Background(), task) // another call chain
		})
	var notRun *asynqmw.NotRunError
	fmt.Println(errors.As(err, &notRun) && notRun.RetryIn < 2*time.Second,
		errors.Is(err, renewer.ErrBusy))
	fmt.Println(asynqmw.Decorate(asynq.Config{}).IsFailure(err))
	// Output:
	// true true
	// false
}

// The job of a tick may run again, after a failure or on another node: the tick's task is enqueued
// once.
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
