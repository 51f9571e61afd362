package cronmw_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(nodeEnv); role != "" {
		os.Exit(beNode(role))
	}
	goleak.VerifyTestMain(m)
}

const minute = time.Minute

// log is what nodes have told of ticks.
type log struct {
	mu    sync.Mutex
	ticks []cronmw.Tick
}

func (l *log) add(_ context.Context, t cronmw.Tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticks = append(l.ticks, t)
}

// count counts those with an outcome.
func (l *log) count(o cronmw.Outcome) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.ticks {
		if t.Outcome == o {
			n++
		}
	}
	return n
}

// missed are the counts of missed ticks that were told, but for 0.
func (l *log) missed() (all []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.ticks {
		if t.Missed > 0 {
			all = append(all, t.Missed)
		}
	}
	return all
}

// all are all of them.
func (l *log) all() []cronmw.Tick {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ticks)
}

// last is the one told last.
func (l *log) last() cronmw.Tick {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ticks[len(l.ticks)-1]
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

// node is one of several.
func (b *bed) node(name string, edit ...func(*cronmw.Config)) *cronmw.Node {
	b.t.Helper()
	cfg := cronmw.Config{OnTick: b.log.add}
	for _, f := range edit {
		f(&cfg)
	}
	n, err := cronmw.New(b.t.Context(), b.keeper(name), cfg)
	require.NoError(b.t, err)
	return n
}

func (b *bed) keeper(name string) *renewer.Keeper {
	b.t.Helper()
	k, err := renewer.New(b.store, renewer.Config{TTL: renewer.DefaultTTL, Node: name})
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		require.NoError(b.t, k.Shutdown(context.WithoutCancel(b.t.Context())))
		synctest.Wait()
	})
	return k
}

// job is that of one node, called "job".
func (b *bed) job(
	node string, s cronmw.Schedule, fn func(context.Context) error, opts ...cronmw.Option,
) *cronmw.Job {
	b.t.Helper()
	j, err := b.node(node).Job("job", s, fn, opts...)
	require.NoError(b.t, err)
	return j
}

// history is that of "job".
func (b *bed) history() cronmw.Last {
	b.t.Helper()
	last, err := cronmw.History(b.t.Context(), b.keeper("reader"), "job")
	require.NoError(b.t, err)
	return last
}

func nothing(context.Context) error { return nil }

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

// ticker calls fire on each tick until the context ends, as a scheduler does.
func ticker(ctx context.Context, s cronmw.Schedule, fire func()) {
	var runs sync.WaitGroup
	defer runs.Wait()
	for {
		select {
		case <-time.After(time.Until(s.Next(time.Now()))):
			runs.Go(fire)
		case <-ctx.Done():
			return
		}
	}
}

// skewed is a schedule on a node whose clock is ahead by so much.
type skewed struct {
	cronmw.Schedule

	ahead time.Duration
}

func (s skewed) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead) }
