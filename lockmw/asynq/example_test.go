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
	"github.com/lockbeat/lockbeat/testutil/embedded"
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
	redis, err := embedded.Start() // in production a server, and redisstore in place of memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer redis.Close()
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	at := asynq.RedisClientOpt{Addr: redis.Addr()}
	client := asynq.NewClient(at)
	defer func() { _ = client.Close() }()
	done := make(chan struct{})
	mux := asynq.NewServeMux()
	mux.Handle("email:send", asynqmw.Handle(keeper, func(e email) string {
		return e.UserID
	}, sendEmail, asynqmw.Requeue(client)))
	mux.HandleFunc("done", func(context.Context, *asynq.Task) error {
		close(done)
		return nil
	})
	server := asynq.NewServer(at,
		asynqmw.Configure(asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel}))
	if err := server.Start(mux); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()

	for _, task := range []*asynq.Task{
		asynq.NewTask("email:send", []byte(`{"UserID":"u1","Text":"hello"}`)),
		asynq.NewTask("done", nil),
	} {
		if _, err := client.Enqueue(task); err != nil {
			fmt.Println(err)
			return
		}
	}
	<-done
	// Output: to u1: hello
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
	handler := asynqmw.Handle(keeper, func(e email) string { return e.UserID }, sendEmail)

	_, err = lockmw.Do(context.Background(), keeper, "email:send:u1",
		func(context.Context) (string, error) {
			task := asynq.NewTask("email:send", []byte(`{"UserID":"u1"}`))
			return "", handler.ProcessTask(context.Background(), task) // another call chain
		})
	var notRun *asynqmw.NotRunError
	fmt.Println(errors.As(err, &notRun) && notRun.RetryIn < 2*time.Second,
		errors.Is(err, renewer.ErrHeld))
	fmt.Println(asynqmw.Configure(asynq.Config{}).IsFailure(err))
	// Output:
	// true true
	// false
}

// The job of a tick may run again, after a failure or on another node: the tick's task is enqueued
// once.
func ExampleEnqueueOnce() {
	redis, err := embedded.Start() // in production a server
	if err != nil {
		fmt.Println(err)
		return
	}
	defer redis.Close()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = client.Close() }()
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = inspector.Close() }()

	due := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC) // of the tick, the same on every node
	for range 3 {
		task := asynq.NewTask("report", nil)
		if err := asynqmw.EnqueueOnce(context.Background(), client, "nightly", due,
			task); err != nil {
			fmt.Println(err)
			return
		}
	}
	tasks, err := inspector.ListPendingTasks("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range tasks {
		fmt.Println(task.ID)
	}
	// Output: report:nightly:20260101T020000Z
}
