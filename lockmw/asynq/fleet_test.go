package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
)

// fleet is some servers of asynq's that serve the same handler, each with a keeper of its own as
// in a process of its own.
type fleet struct {
	*env

	locks   *env // may be on another Redis
	servers []*asynq.Server
	record  record
}

// record is what the servers of a fleet have seen of their tasks.
type record struct {
	mu       sync.Mutex
	refused  []string       // task IDs, in order of their first refusal
	events   int            // deliveries and refusals so far
	seen     map[string]int // when a task was first delivered
	placed   map[string]int // when it was first refused
	runs     []string       // task IDs, in order of their runs
	running  map[string]int
	overlaps int // runs that began while another of the same user ran
	refusals int
	given    map[string]time.Duration // a task's time when it was last delivered
	eaten    []string                 // runs that began with less than seven eighths of it
}

// newFleet starts servers with so many workers each, on the Redis of queues, whose tasks take d
// under locks on the Redis of locks.
func newFleet(
	queues, locks *env, servers, workers int, d time.Duration, opts ...asynqmw.HandleOption,
) *fleet {
	f := &fleet{env: queues, locks: locks, record: newRecord()}
	for range servers {
		h := asynqmw.Handle(locks.keeper(), byUser, func(ctx context.Context, o order) error {
			defer f.record.begin(ctx, o.User)()
			work(ctx, d)
			return nil
		}, opts...)
		f.servers = append(f.servers, queues.serve(f.record.refusalsOf(h), asUsers(workers)))
	}
	return f
}

func newRecord() record {
	return record{
		running: make(map[string]int), seen: make(map[string]int), placed: make(map[string]int),
		given: make(map[string]time.Duration),
	}
}

// fleetTime is a task's: enough for what a fleet's work takes, little enough to see it eaten.
const fleetTime = 24 * time.Second

func (f *fleet) enqueue(user string, opts ...asynq.Option) string {
	return f.env.enqueue(user, append([]asynq.Option{asynq.Timeout(fleetTime)}, opts...)...)
}

// asUsers is the configuration of the README: a number of workers, and nothing else.
func asUsers(workers int) func(*asynq.Config) {
	return func(cfg *asynq.Config) {
		*cfg = asynq.Config{Concurrency: workers, LogLevel: asynq.FatalLevel}
	}
}

// refusalsOf records which tasks h refuses.
func (r *record) refusalsOf(h asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		r.see(ctx)
		err := h.ProcessTask(ctx, task)
		if _, refused := errors.AsType[*asynqmw.NotRunError](err); refused {
			r.refuse(ctx)
		}
		return err
	})
}

func (r *record) see(ctx context.Context) {
	id, _ := asynq.GetTaskID(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events++
	deadline, _ := ctx.Deadline()
	r.given[id] = time.Until(deadline)
	if r.seen[id] == 0 {
		r.seen[id] = r.events
	}
}

func (r *record) refuse(ctx context.Context) {
	id, _ := asynq.GetTaskID(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals++
	r.events++
	if r.placed[id] == 0 {
		r.placed[id] = r.events
		r.refused = append(r.refused, id)
	}
}

// begin records a run, until the function that it returns is called.
func (r *record) begin(ctx context.Context, user string) (end func()) {
	id, _ := asynq.GetTaskID(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, id)
	const heldUp = time.Second // a busy machine
	deadline, _ := ctx.Deadline()
	if given, left := r.given[id], time.Until(deadline); left < given-given/8-heldUp {
		r.eaten = append(r.eaten, fmt.Sprintf("%s had %v of %v", id, left, given))
	}
	r.running[user]++
	if r.running[user] > 1 {
		r.overlaps++
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running[user]--
	}
}

func (r *record) ran() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// happened is how many deliveries and refusals there have been.
func (r *record) happened() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events
}

// awaitRuns waits until there have been n, each of which had its time.
func (f *fleet) awaitRuns(n int, within time.Duration) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return f.record.ran() >= n }, within, time.Millisecond)
	f.record.mu.Lock()
	defer f.record.mu.Unlock()
	assert.Empty(f.t, f.record.eaten)
}

// overtaken is how many tasks ran before another that was refused before they were delivered.
func (r *record) overtaken() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.events + 1
	for _, id := range slices.Backward(r.runs) {
		if first < r.seen[id] {
			n++
		}
		if at := r.placed[id]; at != 0 {
			first = min(first, at)
		}
	}
	return n
}
