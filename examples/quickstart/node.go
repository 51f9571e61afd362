package main

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

const (
	// lockTTL is short, so that a loss shows within seconds.
	// renewer.DefaultTTL (15 s) suits most programs better.
	lockTTL = 2 * time.Second
	// lockWait is how long a task stands in line before it goes back to its queue.
	lockWait = time.Second
	// lockMargin is how long before its lock may be somebody else's a
	// task is told. The default is a tenth of the TTL.
	lockMargin = 500 * time.Millisecond
	// soon is after what time a task comes back that went back to its queue.
	soon = 300 * time.Millisecond
)

// node is one asynq server, with locks.
type node struct {
	client rueidis.Client
	store  *redisstore.Store
	keeper *renewer.Keeper
	server *asynq.Server
}

// settings are what a node differs in from other programs: this is a
// demonstration, and may run on a server of yours.
type settings struct {
	name     string
	prefix   string // of the locks' keys
	queue    string
	observer renewer.Observer
	render   func(context.Context, Report) error
}

// startNode is what a program of yours would do: locks is for its
// Redis client, tasks for its asynq server.
func startNode(
	locks rueidis.ClientOption, tasks asynq.RedisConnOpt, s settings,
) (n *node, err error) {
	n = &node{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop(context.Background()))
		}
	}()
	if locks, err = redisstore.ClientOption(locks, lockTTL); err != nil {
		return n, err
	}
	if n.client, err = rueidis.NewClient(locks); err != nil {
		return n, err
	}
	n.store, err = redisstore.New(n.client, redisstore.Prefix(s.prefix),
		redisstore.WriteTimeout(locks.ConnWriteTimeout))
	if err != nil {
		return n, err
	}
	n.keeper, err = renewer.New(n.store,
		renewer.Config{TTL: lockTTL, Margin: lockMargin, Node: s.name, Observer: s.observer})
	if err != nil {
		return n, err
	}

	mux := asynq.NewServeMux()
	mux.Handle(renderReport, asynqmw.Handle(n.keeper, func(r Report) string {
		return r.User
	}, s.render,
		asynqmw.Wait(lockWait), asynqmw.RetryIn(soon)))

	n.server = asynq.NewServer(tasks, asynqmw.Configure(asynq.Config{
		Concurrency: 12,
		Queues:      map[string]int{s.queue: 1},
		// A task that did not get its lock costs no retry anyhow. Here, neither does one
		// that lost it: it is not the task's fault, and it goes on where it stopped.
		IsFailure:                func(err error) bool { return !errors.Is(err, renewer.ErrLost) },
		RetryDelayFunc:           retryDelay,
		TaskCheckInterval:        50 * time.Millisecond,
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		ShutdownTimeout:          time.Second,
		LogLevel:                 asynq.FatalLevel, // the timeline tells
	}))
	return n, n.server.Start(mux)
}

func retryDelay(n int, err error, task *asynq.Task) time.Duration {
	if errors.Is(err, renewer.ErrLost) {
		return soon
	}
	return asynq.DefaultRetryDelayFunc(n, err, task)
}

// stop ends the node in the order that matters: tasks before locks, locks before their connection.
func (n *node) stop(ctx context.Context) (err error) {
	if n.server != nil {
		n.server.Shutdown()
	}
	if n.keeper != nil {
		err = n.keeper.Shutdown(ctx)
	}
	if n.store != nil {
		n.store.Close()
	}
	if n.client != nil {
		n.client.Close()
	}
	return err
}
