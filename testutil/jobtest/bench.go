package jobtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const (
	// soon bounds what happens in a second or two.
	soon = 20 * time.Second
	// goesOn bounds what a call to a job in line brings about: by themselves
	// jobs come after the TTL of their keepers.
	goesOn = renewer.DefaultTTL * 3 / 5
	tick   = 5 * time.Millisecond
	// look is how often a queue is asked, which may cost a database more than
	// the jobs do.
	look = 4 * tick
)

// bench is what a case works with.
type bench struct {
	Framework

	t     *testing.T
	open  func(t *testing.T) Framework
	locks *redistest.Server
	ttl   time.Duration // of the keepers
	lines []*inLine     // of the keepers

	mu      sync.Mutex
	ran     []string // in order of their beginnings
	running map[string]int
	most    int // that ran for one key at once
	now     int // that run, of all keys
	mostNow int
}

func newBench(t *testing.T, open func(t *testing.T) Framework) *bench {
	return &bench{
		Framework: open(t), t: t, open: open, locks: redistest.Start(t), ttl: renewer.DefaultTTL,
		running: make(map[string]int),
	}
}

// inLine counts the jobs that a process knows to stand in line.
type inLine struct {
	renewer.NopObserver
	atomic.Int64

	fault atomic.Pointer[renewer.Fault] // the latest, for messages of tests that fail
}

// Fault implements [renewer.Observer].
func (c *inLine) Fault(e renewer.Fault) { c.fault.Store(&e) }

// TasksInLine implements [renewer.Observer].
func (c *inLine) TasksInLine(e renewer.TasksInLine) { c.Add(int64(e.Change)) }

// keeper is that of one process.
func (b *bench) keeper() *renewer.Keeper {
	b.t.Helper()
	at := redisstore.Deployment{Option: b.locks.ClientOption(), TTL: b.ttl}
	var store *redisstore.Store
	require.Eventually(b.t, func() bool { // a busy machine may not connect it in time
		var err error
		store, err = redisstore.Open(b.t.Context(), at)
		return err == nil
	}, soon, tick)
	b.t.Cleanup(store.Close)
	line := new(inLine)
	b.lines = append(b.lines, line)
	k, err := renewer.New(store, renewer.Config{TTL: b.ttl, Observer: line, Log: renewer.Silent})
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = k.Shutdown(ctx)
	})
	return k
}

// serve starts two servers with so many workers each.
func (b *bench) serve(workers int, work func(context.Context, Job) error, opts ...jobs.Option) {
	b.t.Helper()
	for range 2 {
		b.Serve(b.keeper(), workers, b.recorded(work), opts...)
	}
}

// recorded is work, and notes that it runs.
func (b *bench) recorded(
	work func(context.Context, Job) error,
) func(context.Context, Job) error {
	return func(ctx context.Context, j Job) error {
		b.note(j, 1)
		defer b.note(j, -1)
		return work(ctx, j)
	}
}

func (b *bench) note(j Job, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if by > 0 {
		b.ran = append(b.ran, j.Name)
	}
	b.running[j.Key] += by
	b.most = max(b.most, b.running[j.Key])
	b.now += by
	b.mostNow = max(b.mostNow, b.now)
}

// runs are the names of the jobs that ran so far.
func (b *bench) runs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ran)
}

// hold takes u1's lock for one that is no job, until the function that it
// returns is called.
func (b *bench) hold() (release func()) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	lease, err := b.keeper().Acquire(ctx, renewer.Request{Name: "u1"})
	require.NoError(b.t, err)
	return func() { require.NoError(b.t, lease.Release(context.Background())) }
}

// enqueue puts jobs into the queue, by their names.
func (b *bench) enqueue(key string, names ...string) {
	for _, name := range names {
		b.Enqueue(Job{Key: key, Name: name})
	}
}

// end waits until a job's context ends, and returns why. It does not outlast
// the test.
func (b *bench) end(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-b.t.Context().Done():
	}
	return context.Cause(ctx)
}

// awaitLine waits until n jobs stand in line.
func (b *bench) awaitLine(n int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return slices.ContainsFunc(b.lines, func(l *inLine) bool { return l.Load() == n })
	}, soon, tick, "%d stand in line; %v", n, b)
}

// String is what has become of the jobs, for messages of tests that fail.
func (b *bench) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%q ran, %d are left, %d failed", b.runs(), b.Left(), b.Failed())
	for _, l := range b.lines {
		if f := l.fault.Load(); f != nil {
			fmt.Fprintf(&s, "; the keeper was told: %s: %v", f.Doing, f.Err)
		}
	}
	return s.String()
}

// awaitRuns waits until these jobs have begun, each once, in whatever order,
// and no others.
func (b *bench) awaitRuns(within time.Duration, names ...string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return len(b.runs()) >= len(names) }, within, tick,
		"want %q; %v", names, b)
	require.ElementsMatch(b.t, names, b.runs())
}

// awaitNoneLeft waits until no job is left. No attempt was used up then.
func (b *bench) awaitNoneLeft() {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.Left() == 0 }, soon, look, "all are done; %v", b)
	assert.Zero(b.t, b.Failed(), "attempts used up, or jobs dropped")
}

// awaitDone is awaitNoneLeft. So many of a key have run at once then.
func (b *bench) awaitDone(most int) {
	b.t.Helper()
	b.awaitNoneLeft()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Equal(b.t, most, b.most, "that ran at once")
}

// awaitFailed waits until one job has failed.
func (b *bench) awaitFailed() {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.Failed() == 1 }, soon, look, "%v", b)
}

// receive is <-from, which has to come soon.
func receive[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(soon):
		t.Fatal("nothing came")
	}
	return got
}
