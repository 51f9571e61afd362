package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// weather is a node that several programs reach through links on which
// requests and replies are delayed and lost.
type weather struct {
	contract.Proposer

	dice *dice
}

// dice is a random source that goroutines may share.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// errLost is what a caller hears when a request or its reply is lost
// and it does not wait for the end.
var errLost = fmt.Errorf("connection reset")

// link takes its time, and reports whether what was sent arrives. What
// is late goes on when its caller has given up.
func (w *weather) link() bool {
	switch w.dice.roll(10) {
	case 0:
		return false
	case 1, 2:
		waitFor(time.Duration(w.dice.roll(3000)) * time.Millisecond)
	default:
		waitFor(time.Duration(w.dice.roll(20)) * time.Millisecond)
	}
	return true
}

// through carries a call out, until ctx ends or it is answered.
func through[A any](
	ctx context.Context, w *weather, n int, fail func(error) A, call func() []A,
) []A {
	done := make(chan []A, 1)
	go func() {
		if !w.link() {
			return
		}
		answers := call()
		if w.link() {
			done <- answers
		}
	}()
	err := errLost
	select {
	case answers := <-done:
		return answers
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
		err = ctx.Err()
	}
	return slices.Repeat([]A{fail(err)}, n)
}

func noGrant(err error) store.Grant { return store.Grant{Err: err} }

func noAnswer(err error) store.Answer { return store.Answer{Err: err} }

func (w *weather) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	return through(ctx, w, len(proposals), noGrant, func() []store.Grant {
		return w.Proposer.Propose(context.Background(), proposals)
	})
}

func (w *weather) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return through(ctx, w, len(holds), noAnswer, func() []store.Answer {
		return w.Proposer.Renew(context.Background(), holds)
	})
}

func (w *weather) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	return through(ctx, w, len(holds), noAnswer, func() []store.Answer {
		return w.Proposer.Release(context.Background(), holds)
	})
}

func (w *weather) Watch(_ string, _ bool, wake func(error)) func() {
	go wake(nil)
	return func() {}
}

// Settle is how long a request may be on its way.
func (w *weather) Settle() time.Duration { return 3 * time.Second }

// belief is a time in which a program believed in its lease.
type belief struct {
	from, to time.Time
	fence    int64
}

// Programs whose clocks differ by minutes contend for one name, over nodes
// with bad links. No two believe in the lock at once, and tokens rise in the
// order in which it was had.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("QUORUM_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("QUORUM_SEED=%d", seed)
	for i := range suite.Size[uint64](3, 18) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &dice{random: rand.New(rand.NewPCG(seed,
					i))} //nolint:gosec // schedules, not secrets
				playSchedule(t, d, []int{1, 3, 5}[i%3])
			})
		})
	}
}

const (
	contenders  = 4
	scheduleFor = 5 * time.Minute
)

func playSchedule(t *testing.T, d *dice, n int) {
	t.Helper()
	var nodes []*weather
	for range n {
		nodes = append(nodes, &weather{engine.In(memory.New()), d})
	}
	var mu sync.Mutex
	var all []belief
	end := time.Now().Add(scheduleFor)
	var wg sync.WaitGroup
	for p := range contenders {
		var stores []store.Store
		for _, node := range nodes {
			stores = append(stores, node)
		}
		s, err := quorum.NewEngine(stores)
		require.NoError(t, err)
		skew := time.Duration(p*p) * 30 * time.Second
		quorum.SetClock(s, func() time.Time { return time.Now().Add(skew) })
		k, err := renewer.New(s,
			renewer.Config{TTL: ttl, Node: fmt.Sprint("program ", p), Log: renewer.Silent})
		require.NoError(t, err)
		wg.Go(func() {
			defer func() {
				_ = k.Shutdown(context.Background()) // what it can't free lapses
				s.Close()
			}()
			for time.Now().Before(end) {
				l, err := k.Acquire(context.Background(), renewer.Request{
					Name: "n", MaxWait: time.Minute,
				})
				if err != nil {
					waitFor(time.Second) // it may be refused at once
					continue
				}
				b := belief{from: time.Now(), fence: l.Fence()}
				select {
				case <-l.Context().Done(): // lost
				case <-time.After(time.Duration(d.roll(30)) * time.Second):
				}
				b.to = time.Now()
				mu.Lock()
				all = append(all, b)
				mu.Unlock()
				_ = l.Release(context.Background()) // it says so again if the lease was lost
			}
		})
	}
	wg.Wait()
	waitFor(time.Hour)
	slices.SortFunc(all, func(a, b belief) int { return a.from.Compare(b.from) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		assert.False(t, b.from.Before(a.to), "two at once: %v and %v", a, b)
		assert.Greater(t, b.fence, a.fence)
	}
	assert.NotEmpty(t, all)
}
