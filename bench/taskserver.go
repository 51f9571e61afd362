package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hibiken/asynq"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

// partTasks is the part of a process that serves asynq tasks.
const partTasks = "tasks"

// How tasks of one user exclude each other.
const (
	inLine = "Lockbeat"             // by the configuration of the README
	inSlot = "free mutex in a slot" // the floor: a mutex of the process, waited for by the worker
	freely = "asynq alone"          // not at all
)

// serving is what a process is told before it serves.
type serving struct {
	Lock        string
	Locks       string // address of the locks' server
	Queue       string // that of asynq's
	Servers     int    // of asynq, in this process
	Concurrency int    // of each
	Interval    time.Duration
}

// email is the payload of a task.
type email struct {
	UserID string
	Work   time.Duration
}

// taskType is the type of every task.
const taskType = "email:send"

// serveTasks serves what it is told on the first line, and then answers each line: how it goes, and
// at "end" what has become of every task.
func serveTasks(ctx context.Context, in *bufio.Reader, out *json.Encoder) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var s serving
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	l := &taskLog{tasks: make(map[string]*delivered)}
	for range s.Servers {
		if err := l.serve(ctx, s); err != nil {
			return err
		}
	}
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	for {
		line, err := in.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line == "end\n":
			err = out.Encode(l.served())
		default:
			err = out.Encode(l.progress())
		}
		if err != nil {
			return err
		}
	}
}

// serve starts one of asynq's servers with a keeper and a store of its own. It is ended with the
// process.
func (l *taskLog) serve(ctx context.Context, s serving) error {
	cfg := asynq.Config{
		Concurrency: s.Concurrency, TaskCheckInterval: s.Interval, LogLevel: asynq.FatalLevel,
	}
	queue := countedRedis{asynq.RedisClientOpt{Addr: s.Queue}, &l.asynq}
	handler := l.handler()
	switch s.Lock {
	case inLine:
		keeper, err := newKeeper(s.Locks, renewer.DefaultTTL)
		if err != nil {
			return err
		}
		cfg, handler = asInREADME(keeper, countedRedis{queue.RedisClientOpt, &l.own}, cfg, l.send)
	case inSlot:
		handler = l.slots(handler)
	}
	mux := asynq.NewServeMux()
	mux.Handle(taskType, l.watched(handler))
	if err := asynq.NewServer(queue, cfg).Start(mux); err != nil {
		return fmt.Errorf("asynq: %w", err)
	}
	return ctx.Err()
}

// asInREADME is the handler and the configuration of the README's example, with its options.
func asInREADME(
	keeper *renewer.Keeper, redis asynq.RedisConnOpt, cfg asynq.Config,
	send func(context.Context, email) error,
) (asynq.Config, asynq.Handler) {
	byUser := func(e email) string { return e.UserID }
	return asynqmw.Configure(cfg), asynqmw.Handle(keeper, byUser, send,
		asynqmw.InLine(redis), asynqmw.Requeue(asynq.NewClient(redis)))
}
