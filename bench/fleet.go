package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// taskTime bounds every case of tasks.
const taskTime = 60 * time.Second

// fleet is asynq's servers in processes of their own, and a Redis server each for the queue and for
// the locks, so that the requests of the locks can be told from asynq's.
type fleet struct {
	locks, queue *redistest.Server
	client       *asynq.Client
	children     []*childProcess
}

// fleetOf says how tasks are served.
type fleetOf struct {
	lock        string
	servers     int
	concurrency int
	interval    time.Duration // 0: as Configure or asynq has it
}

func (of fleetOf) open(ctx context.Context) (f *fleet, err error) {
	f = new(fleet)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.locks, err = openServer(); err != nil {
		return f, err
	}
	if f.queue, err = openServer(); err != nil {
		return f, err
	}
	f.client = asynq.NewClient(asynq.RedisClientOpt{Addr: f.queue.Addr()})
	processes, each := of.servers, 1
	if of.lock == inSlot { // whose lock is of one process
		processes, each = 1, of.servers
	}
	f.children = make([]*childProcess, processes)
	s := serving{
		of.lock, f.locks.Addr(), f.queue.Addr(), each, of.concurrency, of.interval,
	}
	return f, together(processes, func(i int) (err error) {
		if f.children[i], err = startChild(ctx, childSpec{Part: partTasks}); err != nil {
			return err
		}
		if err := json.NewEncoder(f.children[i].stdin).Encode(s); err != nil {
			return err
		}
		return f.children[i].said.Decode(new(ready))
	})
}

// close kills the processes: what they have to say is known, and asynq's servers end slowly.
func (f *fleet) close() {
	for _, c := range f.children {
		if c != nil {
			_ = c.end(errNotEnded)
		}
	}
	if f.client != nil {
		_ = f.client.Close()
	}
	for _, s := range []*redistest.Server{f.locks, f.queue} {
		if s != nil {
			_ = s.Close() // it has no data that could be lost
		}
	}
}

// enqueuers is how many tasks are enqueued at a time.
const enqueuers = 16

// enqueue puts tasks into the queue, the i-th for user(i). It returns when each of them was given
// to asynq, by the machine's monotonic clock.
func (f *fleet) enqueue(
	tasks int, work time.Duration, user func(i int) string,
) (map[string]int64, error) {
	type one struct {
		id string
		at int64
	}
	all := make([]one, tasks)
	var next atomic.Int64
	err := together(enqueuers, func(int) error {
		for i := int(next.Add(1)) - 1; i < tasks; i = int(next.Add(1)) - 1 {
			id, at, err := f.enqueueOne(user(i), work)
			if err != nil {
				return err
			}
			all[i] = one{id, at}
		}
		return nil
	})
	at := make(map[string]int64, tasks)
	for _, o := range all {
		at[o.id] = o.at
	}
	return at, err
}

func (f *fleet) enqueueOne(user string, work time.Duration) (id string, at int64, err error) {
	payload, err := json.Marshal(email{user, work})
	if err != nil {
		return "", 0, err
	}
	at = monotonic()
	info, err := f.client.Enqueue(asynq.NewTask(taskType, payload))
	if err != nil {
		return "", 0, fmt.Errorf("asynq: enqueue: %w", err)
	}
	return info.ID, at, nil
}

// ask asks every process for one answer to a line.
func ask[T any](f *fleet, line string) ([]T, error) {
	answers := make([]T, len(f.children))
	err := within(2*endWithin, func() error {
		return together(len(answers), func(i int) error {
			if _, err := io.WriteString(f.children[i].stdin, line+"\n"); err != nil {
				return err
			}
			return f.children[i].said.Decode(&answers[i])
		})
	})
	return answers, err
}

// await waits until a condition holds, or for a time, or until ctx ends.
func (f *fleet) await(
	ctx context.Context, bound time.Duration, holds func(progress) bool,
) (bool, error) {
	const often = 20 * time.Millisecond
	ticker := time.NewTicker(often)
	defer ticker.Stop()
	for over := time.Now().Add(bound); time.Now().Before(over); {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-ticker.C:
		}
		all, err := ask[progress](f, "how")
		if err != nil {
			return false, err
		}
		var sum progress
		for _, p := range all {
			sum.Hot += p.Hot
			sum.Done += p.Done
		}
		if holds(sum) {
			return true, nil
		}
	}
	return false, nil
}

// end asks the processes what has become of the tasks. A task that was given to several of them was
// first seen when the first saw it.
func (f *fleet) end() (sum served, err error) {
	all, err := ask[served](f, "end")
	if err != nil {
		return sum, err
	}
	tasks := make(map[string]*delivered)
	for _, s := range all {
		sum.Own += s.Own
		sum.Asynq += s.Asynq
		if s.Err != "" {
			err = errors.Join(err, errors.New(s.Err))
		}
		for _, d := range s.Tasks {
			if tasks[d.ID] == nil {
				tasks[d.ID] = &d
			} else {
				tasks[d.ID].merge(d)
			}
		}
	}
	for _, d := range tasks {
		sum.Tasks = append(sum.Tasks, *d)
	}
	return sum, err
}

func (d *delivered) merge(o delivered) {
	d.Deliveries += o.Deliveries
	d.Runs += o.Runs
	d.User = cmp.Or(d.User, o.User)
	d.Began, d.Ended = max(d.Began, o.Began), max(d.Ended, o.Ended)
	d.Seen = earliest(d.Seen, o.Seen)
	d.Placed = earliest(d.Placed, o.Placed)
}

// earliest is the lesser of two instants, of which 0 is none.
func earliest(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// requested is how many requests the keepers have sent to the locks' server. What scripts call is
// not counted, nor the pings by which a client looks after its connection.
func (f *fleet) requested() (sum int64, err error) {
	for _, command := range asked {
		n, err := f.locks.Calls(command)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// overlapping counts the runs of a user that began while another of that user's had not ended.
func overlapping(tasks []delivered) (n int) {
	byUser := make(map[string][]delivered)
	for _, d := range tasks {
		if d.Ended != 0 {
			byUser[d.User] = append(byUser[d.User], d)
		}
	}
	for _, all := range byUser {
		slices.SortFunc(all, func(a, b delivered) int { return cmp.Compare(a.Began, b.Began) })
		for i := range all[1:] {
			if all[i+1].Began < all[i].Ended {
				n++
			}
		}
	}
	return n
}

// outOfOrder is the share of the tasks that ran before another of the same user which certainly had
// its place earlier: its first delivery had returned before the task's own began.
func outOfOrder(tasks []delivered) float64 {
	byUser := make(map[string][]delivered)
	for _, d := range tasks {
		if d.Runs > 0 {
			byUser[d.User] = append(byUser[d.User], d)
		}
	}
	overtook, all := 0, 0
	for _, run := range byUser {
		slices.SortFunc(run, func(a, b delivered) int { return cmp.Compare(a.Began, b.Began) })
		first := run[len(run)-1].Placed
		for _, d := range slices.Backward(run) {
			all++
			if first < d.Seen {
				overtook++
			}
			first = min(first, d.Placed)
		}
	}
	return float64(overtook) / float64(max(all, 1))
}
