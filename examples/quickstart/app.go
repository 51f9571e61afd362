package main

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Report is the payload of a task: so many pages to be rendered for a user.
type Report struct {
	ID, User string
	Pages    int
}

// render is the work. It knows nothing of locks, but for the fencing token that
// it passes on with what it writes. It goes on where it stopped, and stops soon
// when its context ends.
func (s *shelf) render(ctx context.Context, r Report) error {
	for page := s.pages(r); page < r.Pages; page++ {
		select {
		case <-time.After(pageTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.put(r, page, lockmw.Fence(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// runNode is one asynq server with locks, until ctx ends. In a program of yours
// this is main.
func runNode(ctx context.Context, n node) error {
	store, err := redisstore.Open(ctx, n.redis) // where it is says redisstore.FromEnv
	if err != nil {
		return err
	}
	defer store.Close()
	keeper, err := renewer.New(store, n.config)
	if err != nil {
		return err
	}

	locks, config := asynqmw.Configure(keeper, n.tasks, asynq.Config{
		Queues:      map[string]int{n.queue: 1},
		Concurrency: 12,
		// A task that did not get its lock uses up no retry. Here, a task that
		// lost it does not either: it goes on where it stopped.
		IsFailure:                func(err error) bool { return !errors.Is(err, renewer.ErrLost) },
		RetryDelayFunc:           retryDelay,
		TaskCheckInterval:        50 * time.Millisecond,
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		ShutdownTimeout:          time.Second,
		LogLevel:                 asynq.FatalLevel,
	})
	defer locks.Close()

	mux := asynq.NewServeMux()
	mux.Handle(taskType, asynqmw.Wrap(locks,
		func(r Report) string { return lockmw.Key("user", r.User) }, n.render,
		jobs.RetryIn(soon))) // a task that could not ask comes again after this
	server := asynq.NewServer(n.tasks, config)
	if err = server.Start(mux); err == nil {
		<-ctx.Done()
		server.Shutdown() // tasks before their locks, locks before their connection
	}
	return errors.Join(err, keeper.Shutdown(context.WithoutCancel(ctx)))
}
