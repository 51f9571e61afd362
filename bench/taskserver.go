package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

// partTasks is the part of a process that serves asynq tasks.
const partTasks = "tasks"

// How tasks of one user exclude each other.
const (
	inLine = "Lockbeat"             // by the configuration of the README
	inSlot = "free mutex in a slot" // the floor: a mutex of the process, waited for in the worker's slot
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

// delivered is what became of a task in one process, by the machine's monotonic clock.
type delivered struct {
	ID         string
	User       string
	Seen       int64 // first delivery to the handler
	Placed     int64 // that returned, or ran: by then the task has a place
	Began      int64 // the last run
	Ended      int64
	Deliveries int
	Runs       int
}

// progress is how many tasks of the hot user a process has been given, and how many it has done of
// all.
type progress struct{ Hot, Done int }

// served is what a process says in the end.
type served struct {
	Tasks     []delivered
	Own       int64 // requests to asynq's server that Lockbeat made
	Asynq     int64 // and those that asynq made
	Processes int
	Err       string
}

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
		inspector := asynq.NewInspector(countedRedis{queue.RedisClientOpt, &l.own})
		cfg = asynqmw.Configure(cfg)
		handler = asynqmw.Handle(keeper, func(e email) string { return e.UserID }, l.send,
			handleOptions(inspector)...)
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

// handleOptions are the options of the README's example. Only here would they be added to.
func handleOptions(_ *asynq.Inspector) []asynqmw.HandleOption { return nil }

// taskLog is what has become of the tasks of a process.
type taskLog struct {
	own, asynq atomic.Int64 // requests

	mu    sync.Mutex
	tasks map[string]*delivered
	hot   int
	done  int
	locks sync.Map // of users: *sync.Mutex
}

// handler is the user's own, without a lock.
func (l *taskLog) handler() asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var e email
		if err := json.Unmarshal(task.Payload(), &e); err != nil {
			return err
		}
		return l.send(ctx, e)
	})
}

// slots puts the floor's lock around a handler.
func (l *taskLog) slots(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var e email
		if err := json.Unmarshal(task.Payload(), &e); err != nil {
			return err
		}
		lock, _ := l.locks.LoadOrStore(e.UserID, new(sync.Mutex))
		if mu, ok := lock.(*sync.Mutex); ok {
			mu.Lock()
			defer mu.Unlock()
		}
		return next.ProcessTask(ctx, task)
	})
}

// send is the user's work.
func (l *taskLog) send(ctx context.Context, e email) error {
	id, _ := asynq.GetTaskID(ctx)
	began := monotonic()
	l.note(id, func(d *delivered) {
		if d.Runs++; d.Placed == 0 {
			d.Placed = began
		}
		d.Began = began
	})
	timer := time.NewTimer(e.Work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := monotonic()
	l.note(id, func(d *delivered) {
		if d.Ended == 0 {
			l.done++
		}
		d.Ended = ended
	})
	return nil
}

// watched notes when a task is given to the handler, and when that returns.
func (l *taskLog) watched(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		seen := monotonic()
		var e email
		if err := json.Unmarshal(task.Payload(), &e); err != nil {
			return err
		}
		l.note(id, func(d *delivered) {
			if d.Deliveries++; d.Seen == 0 {
				d.Seen, d.User = seen, e.UserID
				if e.UserID == hotName {
					l.hot++
				}
			}
		})
		err := next.ProcessTask(ctx, task)
		answered := monotonic()
		l.note(id, func(d *delivered) {
			if d.Placed == 0 {
				d.Placed = answered
			}
		})
		return err
	})
}

func (l *taskLog) note(id string, change func(*delivered)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.tasks[id]
	if d == nil {
		d = &delivered{ID: id}
		l.tasks[id] = d
	}
	change(d)
}

func (l *taskLog) progress() progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return progress{l.hot, l.done}
}

func (l *taskLog) served() served {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := served{Own: l.own.Load(), Asynq: l.asynq.Load()}
	for _, d := range l.tasks {
		s.Tasks = append(s.Tasks, *d)
	}
	return s
}

// countedRedis is asynq's connection, with the requests that go over it counted.
type countedRedis struct {
	asynq.RedisClientOpt

	requests *atomic.Int64
}

func (c countedRedis) MakeRedisClient() any {
	client := c.RedisClientOpt.MakeRedisClient()
	if hooked, ok := client.(redis.UniversalClient); ok {
		hooked.AddHook(c)
	}
	return client
}

func (c countedRedis) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

func (c countedRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.requests.Add(1)
		return next(ctx, command)
	}
}

func (c countedRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.requests.Add(int64(len(commands)))
		return next(ctx, commands)
	}
}
