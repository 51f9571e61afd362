package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

// email is the payload of a task, and taskType the type of every task.
type email struct {
	UserID  string
	Nth     int // of the user's, in the order in which they are enqueued
	Work    time.Duration
	Limited bool // by two limits, instead of a lock
}

// How many tasks of one user may run at once, and of all, if they are limited.
const (
	mostOfOne = 3
	mostOfAll = 20
)

// lock is the key of a task.
func (e email) lock() lockmw.Set {
	if !e.Limited {
		return lockmw.All(e.UserID)
	}
	return lockmw.All(lockmw.Limit(e.UserID, mostOfOne), lockmw.Limit("all", mostOfAll))
}

const (
	taskType    = "email:send"
	taskServers = 2
)

// ran is one run of a task. Processes of one machine share its clock.
type ran struct {
	ID, UserID   string
	Nth          int
	Began, Ended int64 // ns since 1970
}

// taskLog is what has become of the tasks of one process.
type taskLog struct {
	mu         sync.Mutex
	runs       []ran
	deliveries int
}

// served is what a process says of its tasks: the runs only when it is asked
// for them.
type served struct {
	Done, Deliveries int
	Runs             []ran
}

// newTaskServer is a child that serves asynq by the configuration of the
// README; or, without locks, with so few workers that all servers run as many
// tasks at once as the limits let run.
func newTaskServer(s setup) (handle, error) {
	option := rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true}
	keeper, _, err := newKeeper(option, renewer.DefaultTTL)
	if err != nil {
		return nil, err
	}
	l, queue := new(taskLog), asynq.RedisClientOpt{Addr: s.Queue}
	workers := 20
	if s.Role == unlocked {
		workers = mostOfAll / taskServers
	}
	locks, cfg := asynqmw.Configure(keeper, queue, asynq.Config{
		Concurrency: workers, LogLevel: asynq.FatalLevel,
	})
	locked := asynqmw.Wrap(locks, email.lock, l.send)
	if s.Role == unlocked {
		locked = asynq.HandlerFunc(l.sendUnlocked)
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc(taskType, func(ctx context.Context, task *asynq.Task) error {
		l.mu.Lock()
		l.deliveries++
		l.mu.Unlock()
		return locked.ProcessTask(ctx, task)
	})
	if err := asynq.NewServer(queue, cfg).Start(mux); err != nil {
		return nil, fmt.Errorf("asynq: %w", err)
	}
	return func(_ context.Context, request json.RawMessage) (any, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		answer := served{Done: len(l.runs), Deliveries: l.deliveries}
		var all bool
		if err := json.Unmarshal(request, &all); err != nil {
			return nil, err
		}
		if all {
			answer.Runs = slices.Clone(l.runs)
		}
		return answer, nil
	}, nil
}

// send is the user's work.
func (l *taskLog) send(ctx context.Context, e email) error {
	id, _ := asynq.GetTaskID(ctx)
	began := time.Now().UnixNano()
	select {
	case <-time.After(e.Work):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := time.Now().UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, ran{id, e.UserID, e.Nth, began, ended})
	return nil
}

// sendUnlocked is send as asynq alone has it.
func (l *taskLog) sendUnlocked(ctx context.Context, task *asynq.Task) error {
	var e email
	if err := json.Unmarshal(task.Payload(), &e); err != nil {
		return err
	}
	return l.send(ctx, e)
}

// fleet is asynq's servers in processes of their own, and a Redis server each
// for the queue and for the locks, so that the requests of the locks can be
// told from asynq's.
type fleet struct {
	crew

	locks, queue server
	client       *asynq.Client
	done         int // tasks that were enqueued before, all of which have run
}

func openFleet(ctx context.Context, role string) (f *fleet, err error) {
	f = new(fleet)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for _, s := range []*server{&f.locks, &f.queue} {
		if *s, err = openServer(); err != nil {
			return f, err
		}
	}
	f.client = asynq.NewClient(asynq.RedisClientOpt{Addr: f.queue.Addr()})
	f.crew, err = startCrew(ctx, taskServers, setup{
		Role: role, Who: lockbeat, Addr: f.locks.Addr(), Queue: f.queue.Addr(),
	})
	return f, err
}

func (f *fleet) close() {
	f.end()
	if f.client != nil {
		_ = f.client.Close()
	}
	for _, s := range []server{f.locks, f.queue} {
		if s.Server != nil {
			_ = s.Close()
		}
	}
}

// serve enqueues tasks, the i-th for the user i modulo users, those of one user
// in order, and returns how long they took.
func (f *fleet) serve(
	ctx context.Context, tasks, users int, work time.Duration, limited bool,
) (time.Duration, error) {
	begun := time.Now()
	const enqueuers = 20
	err := together(enqueuers, func(e int) error {
		for i := range tasks {
			user, nth := i%users, i/users
			if user%enqueuers != e {
				continue
			}
			payload, err := json.Marshal(email{
				fmt.Sprintf("%d-%d", f.done, user), nth, work, limited,
			})
			if err != nil {
				return err
			}
			if _, err := f.client.Enqueue(asynq.NewTask(taskType, payload)); err != nil {
				return fmt.Errorf("asynq: enqueue: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	f.done += tasks
	for done := 0; done < f.done; {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d tasks are done: %w", done, f.done, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
		all, err := askAll[served](f.crew, false)
		if err != nil {
			return 0, err
		}
		done = 0
		for _, one := range all {
			done += one.Done
		}
	}
	return time.Since(begun), nil
}

// crowd is 300 callers of one user, and then tasks of asynq, one at a time for
// each user.
func crowd(ctx context.Context, o options, f *figures) error {
	if err := callers(ctx, o, f); err != nil {
		return err
	}
	if len(o.contestants(lockbeat)) == 0 {
		return nil
	}
	for _, row := range []taskRow{
		{oneUser, 300, 1, false, servingTasks},
		{manyUsers, 1000, 20, false, servingTasks},
		{manyTenants, 1000, 20, true, servingTasks},
		{noLocks, 1000, 20, false, unlocked},
	} {
		if o.short {
			row.tasks = 2 * row.users
		}
		bounded, cancel := context.WithTimeout(ctx, o.bound())
		err := f.tasks(bounded, row)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

// taskRow is a row of the table: tasks of some users, one of each at a time
// unless it says otherwise.
type taskRow struct {
	name         string
	tasks, users int
	limited      bool   // by two limits
	role         string // of the servers
}

const (
	tasksTable = "Tasks of asynq, 20 ms each, on two servers of 20 workers"
	oneUser    = "300 tasks of one user"
	manyUsers  = "1,000 tasks of 20 users"
	// manyTenants goes by two limits.
	manyTenants = "1,000 tasks of 20 tenants, 3 each, 20 in all"
	// noLocks is what asynq itself takes, in any order.
	noLocks = "1,000 tasks without locks, on two servers of 10 workers"
)

func (f *figures) tasks(ctx context.Context, row taskRow) error {
	const work = 20 * time.Millisecond
	fl, err := openFleet(ctx, row.role)
	if err != nil {
		return err
	}
	defer fl.close()
	const warm = 40 // of as many users: then all is connected, and every script is known
	if _, err := fl.serve(ctx, warm, warm, time.Millisecond, row.limited); err != nil {
		return err
	}
	before, err := fl.locks.usage()
	if err != nil {
		return err
	}
	took, err := fl.serve(ctx, row.tasks, row.users, work, row.limited)
	if err != nil {
		return err
	}
	after, err := fl.locks.usage()
	if err != nil {
		return err
	}
	all, err := askAll[served](fl.crew, true)
	if err != nil {
		return err
	}
	var runs []ran
	deliveries := -warm
	for _, one := range all {
		runs = append(runs, one.Runs...)
		deliveries += one.Deliveries
	}
	// As many run at once as there are users, which are mostOfAll where there
	// are many.
	ideal := work * time.Duration(row.tasks/row.users)
	f.add(tasksTable, row.name, toIdeal, float64(took)/float64(ideal))
	f.add(tasksTable, row.name, "scripts a task",
		float64(after.since(before).scripts)/float64(row.tasks))
	f.add(tasksTable, row.name, "deliveries a task", float64(deliveries)/float64(row.tasks))
	switch {
	case row.role == unlocked:
		return check(runs, mostOfAll, mostOfAll)
	case !row.limited:
		return check(runs, 1, len(runs))
	}
	f.add(tasksTable, row.name, "out of order", float64(outOfOrder(runs)))
	return check(runs, mostOfOne, mostOfAll)
}

// outOfOrder counts the runs that began before so many earlier tasks of their
// users as may run at once: among these, the order is the workers'.
func outOfOrder(runs []ran) (n int) {
	for _, r := range runs {
		later := 0
		for _, other := range runs {
			if other.UserID == r.UserID && other.Nth < r.Nth && other.Began > r.Began {
				later++
			}
		}
		if later >= mostOfOne {
			n++
		}
	}
	return n
}

// check looks for what must not be: more runs at a time, of a user or of all,
// or two of one task.
func check(runs []ran, mostOfOne, mostOfAll int) error {
	seen := make(map[string]bool)
	for _, r := range runs {
		if seen[r.ID] {
			return errors.New("a task ran twice")
		}
		seen[r.ID] = true
		ofOne, ofAll := 0, 0
		for _, other := range runs {
			if other.Began <= r.Began && r.Began < other.Ended {
				ofAll++
				if other.UserID == r.UserID {
					ofOne++
				}
			}
		}
		if ofOne > mostOfOne || ofAll > mostOfAll {
			return errOverlap
		}
	}
	return nil
}
