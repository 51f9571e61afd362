package gocronmw_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const minute = time.Minute

// log is what has run where, and why not.
type log struct {
	mu     sync.Mutex
	ran    []string // nodes
	at     []time.Time
	errors []error // of locks
}

func (l *log) run(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran, l.at = append(l.ran, node), append(l.at, time.Now())
}

// runs is where the runs were, and counts the locks that were refused for a reason.
func (l *log) runs(reason error) (ran []string, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.errors {
		if errors.Is(err, reason) {
			refused++
		}
	}
	return l.ran, refused
}

// told hears of refused locks.
func (l *log) told() gocron.JobOption {
	return gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.errors = append(l.errors, err)
	}))
}

// bed is a store that nodes share, in a bubble.
type bed struct {
	t     *testing.T
	store *script.Store
	log   *log
}

// inBubble runs f in a bubble.
func inBubble(t *testing.T, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &bed{t: t, store: script.New(), log: new(log)}) })
}

func (b *bed) keeper(name string, edit ...func(*renewer.Config)) *renewer.Keeper {
	b.t.Helper()
	cfg := renewer.Config{TTL: renewer.DefaultTTL, Node: name}
	for _, e := range edit {
		e(&cfg)
	}
	k, err := renewer.New(b.store, cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		require.NoError(b.t, k.Shutdown(context.WithoutCancel(b.t.Context())))
		synctest.Wait()
	})
	return k
}

// locker is that of a node.
func (b *bed) locker(name string, cfg gocronmw.Config) *gocronmw.Locker {
	b.t.Helper()
	l, err := gocronmw.NewLocker(b.keeper(name), cfg)
	require.NoError(b.t, err)
	return l
}

// scheduler is a gocron that ends with the test.
func (b *bed) scheduler(opts ...gocron.SchedulerOption) gocron.Scheduler {
	b.t.Helper()
	s, err := gocron.NewScheduler(append([]gocron.SchedulerOption{gocron.WithLocation(time.UTC)},
		opts...)...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		stop(b.t, s)
		synctest.Wait()
	})
	return s
}

// stop stops a scheduler between two ticks: gocron's own Shutdown spins until jobs have ended,
// in which time stands still in a bubble, and one that has yet to lock asks the scheduler, which
// answers no more, for a second.
func stop(t *testing.T, s gocron.Scheduler) {
	t.Helper()
	elapse(time.Second / 2)
	synctest.Wait()
	require.NoError(t, s.Shutdown())
}

// task notes where it runs.
func (b *bed) task(node string) gocron.Task {
	return gocron.NewTask(func() { b.log.run(node) })
}

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }
