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
