package renewer_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// newestCase has two processes and what calls of them have got.
type newestCase struct {
	t       *testing.T
	keepers []*renewer.Keeper
}

// asked is a call that waits, or has ended.
type asked struct {
	lease *renewer.Lease
	err   error
	ended bool
	done  chan struct{}
}

func inTwoProcesses(t *testing.T, f func(c *newestCase)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		c := &newestCase{t: t}
		for _, node := range []string{"one", "two"} {
			cfg := config
			cfg.Node = node
			k, err := renewer.New(s, cfg)
			require.NoError(t, err)
			c.keepers = append(c.keepers, k)
		}
		f(c)
		for _, k := range c.keepers {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			assert.NoError(t, k.Shutdown(ctx))
			cancel()
		}
	})
}

// ask has a process ask for the lock, and returns when nothing more happens by
// itself.
func (c *newestCase) ask(process int, more ...renewer.Request) *asked {
	a := &asked{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lease, a.err = c.keepers[process].Acquire(c.t.Context(), named("a", more))
		a.ended = true
	}()
	synctest.Wait()
	return a
}

func (c *newestCase) replaced(a *asked, msg string) {
	c.t.Helper()
	synctest.Wait()
	require.True(c.t, a.ended, msg)
	assert.ErrorIs(c.t, a.err, renewer.ErrReplaced, msg)
	assert.ErrorIs(c.t, a.err, renewer.ErrBusy, msg)
}

// release has an operation return, after which the next caller has the lock.
func (c *newestCase) release(a *asked) error {
	err := a.lease.Release(c.t.Context())
	synctest.Wait()
	return err
}

// Of those who wait none but the newest does, wherever they run; the holder
// goes on.
func TestLatest(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][4]int{
		"in one process": {0, 0, 0, 0}, "behind one process": {0, 1, 1, 1},
		"each elsewhere": {0, 1, 0, 1}, "the last one beside the holder": {0, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTwoProcesses(t, func(c *newestCase) {
				holder := c.ask(at[0], renewer.Request{Newest: renewer.NewestWaits})
				require.NoError(t, holder.err)
				old := c.ask(at[1], renewer.Request{Newest: renewer.NewestWaits})
				require.False(t, old.ended)
				middle := c.ask(at[2], renewer.Request{Newest: renewer.NewestWaits})
				c.replaced(old, "one waits")
				last := c.ask(at[3], renewer.Request{Newest: renewer.NewestWaits})
				c.replaced(middle, "the newest")
				require.False(t, last.ended)
				waitFor(time.Minute) // of notes, a life
				older := c.ask(at[2], renewer.Request{Operation: "patient"})
				require.False(t, older.ended, "another kind of call has its place")
				assert.NoError(t, holder.lease.Err())
				require.NoError(t, c.release(holder))
				if !last.ended { // they are in two processes
					require.True(t, older.ended)
					require.NoError(t, c.release(older))
				}
				require.True(t, last.ended)
				require.NoError(t, last.err)
				require.NoError(t, c.release(last))
				if !older.ended {
					waitFor(time.Minute)
				}
				if older.lease.Err() == nil {
					_ = c.release(older)
				}
			})
		})
	}
}

// The newest call wins: the operation of the holder ends, and the call has the
// lock when that has returned, and not before.
func TestReplace(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][3]int{
		"in one process": {0, 0, 0}, "elsewhere": {0, 1, 1}, "back and forth": {0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTwoProcesses(t, func(c *newestCase) {
				holder := c.ask(at[0], renewer.Request{Newest: renewer.NewestReplaces})
				require.NoError(t, holder.err)
				begun := time.Now()
				old := c.ask(at[1], renewer.Request{Newest: renewer.NewestReplaces})
				_, lost := lostAt(t, holder.lease)
				assert.Equal(t, begun, time.Now(), "at once")
				assert.Equal(t, renewer.ReasonReplaced, lost.Reason)
				assert.ErrorIs(t, lost, renewer.ErrReplaced)
				assert.Contains(t, lost.By, []string{"one", "two"}[at[1]])
				waitFor(time.Second)
				require.False(t, old.ended, "the operation has not returned")
				last := c.ask(at[2], renewer.Request{Newest: renewer.NewestReplaces})
				c.replaced(old, "the newest wins")
				require.ErrorIs(t, c.release(holder), renewer.ErrReplaced)
				require.True(t, last.ended)
				require.NoError(t, last.err)
				assert.Equal(t, begun.Add(time.Second), time.Now(), "at once")
				assert.Greater(t, last.lease.Fence(), holder.lease.Fence())
				require.NoError(t, c.release(last))
			})
		})
	}
}

// An operation that does not return keeps the lock to the end of its TTL at the
// latest.
func TestReplaceOfOneThatHangs(t *testing.T) {
	t.Parallel()
	inTwoProcesses(t, func(c *newestCase) {
		holder := c.ask(0, renewer.Request{Newest: renewer.NewestReplaces})
		begun := time.Now()
		next := c.ask(1, renewer.Request{Newest: renewer.NewestReplaces})
		<-next.done
		require.NoError(t, next.err)
		assert.WithinDuration(t, begun.Add(config.TTL), time.Now(), 10*time.Millisecond)
		require.Error(t, c.release(holder))
		require.True(t, next.lease.Valid(), "a late release does not touch it")
		require.NoError(t, c.release(next))
	})
}

// A bound on those who wait does not keep the newest call out, which takes the
// place of one.
func TestNewestCallWhereManyWait(t *testing.T) {
	t.Parallel()
	inTwoProcesses(t, func(c *newestCase) {
		k := c.keepers[0]
		holder := c.ask(0, renewer.Request{Operation: "plain"})
		old := c.ask(0, renewer.Request{Newest: renewer.NewestWaits})
		done := make(chan error, 1)
		go func() {
			l, err := k.Acquire(c.t.Context(), renewer.Request{
				Name: "a", MaxWaiters: 1, Newest: renewer.NewestWaits,
			})
			if err == nil {
				err = l.Release(c.t.Context())
			}
			done <- err
		}()
		c.replaced(old, "one waits")
		require.NoError(t, c.release(holder))
		require.NoError(t, <-done)
	})
}

// That a newer call takes the place of one is what was asked for, and no alarm.
func TestReplacedIsLoggedAtInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, cfg := new(logbook), config
		cfg.Observer = b.observer(slog.LevelInfo)
		k, err := renewer.New(memory.New(), cfg)
		require.NoError(t, err)
		c := &newestCase{t: t, keepers: []*renewer.Keeper{k}}
		first := c.ask(0, renewer.Request{Newest: renewer.NewestReplaces})
		second := c.ask(0, renewer.Request{Newest: renewer.NewestReplaces})
		third := c.ask(0, renewer.Request{Newest: renewer.NewestReplaces})
		c.replaced(second, "the newest")
		require.Error(t, c.release(first))
		require.NoError(t, c.release(third))
		for _, msg := range []string{
			"a newer call has taken the place of one that ran",
			"a newer call has taken the place of one that waited",
		} {
			lines := b.lines(t, msg)
			require.Len(t, lines, 1, "%s: %s", msg, b)
			assert.Equal(t, "INFO", lines[0]["level"])
		}
		assert.NotContains(t, b.String(), `"WARN"`)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// Calls that come together are in one order, here and at the store: one of them
// wins, though the older one's word is late.
func TestOneOfThoseWhoComeTogetherWins(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		var slow atomic.Bool // the next one
		s.replace = func(ctx context.Context, r contract.Replacement) (int64, error) {
			if slow.Swap(false) {
				waitFor(time.Second)
			}
			if r.Over {
				waitFor(time.Second)
			}
			return s.Whole.Replace(ctx, r)
		}
		c := &newestCase{t: t, keepers: []*renewer.Keeper{k}}
		holder := c.ask(0, renewer.Request{Operation: "holder"})
		other := acquire(t, k, "b")
		slow.Store(true)
		old := c.ask(0, renewer.Request{Newest: renewer.NewestWaits})
		last := c.ask(0, renewer.Request{Newest: renewer.NewestWaits})
		waitFor(2 * time.Second)
		c.replaced(old, "the newest waits")
		require.False(t, last.ended, "%v", last.err)
		require.NoError(t, c.release(holder))
		require.NoError(t, last.err)
		require.NoError(t, c.release(last))
		require.NoError(t, other.Release(t.Context()))
	})
}

// A call whose word comes when a newer one has the lock already, or had it a
// moment ago, is refused, and does not end that one's operation.
func TestALateReplaceEndsNoNewerOperation(t *testing.T) {
	t.Parallel()
	for name, noted := range map[string]bool{"that has waited": true, "that has not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := engine.In(memory.New())
				ctx := t.Context()
				claim := func(letter string, since int64) store.Claim {
					return store.Claim{
						Name: "a", Owner: strings.Repeat(letter, store.OwnerLen), TTL: time.Hour,
						Newness: store.Newness{Since: since, Age: 1},
					}
				}
				ask := func(letter string, since int64) int64 {
					since, err := s.Replace(ctx, contract.Replacement{
						Name: "a", Owner: strings.Repeat(letter, store.OwnerLen), Break: true,
						Newness: store.Newness{Since: since, Age: 1},
					})
					require.NoError(t, err)
					return since
				}
				old := ask("a", 0)
				require.Positive(t, old)
				waitFor(time.Second)
				newer := int64(0)
				if noted {
					newer = ask("b", 0)
				}
				grant := s.Acquire(ctx, []store.Claim{claim("b", newer)})[0]
				require.Equal(t, store.StatusHeld, grant.Status)
				waitFor(time.Second)
				assert.Zero(t, ask("a", old), "it came before")
				lock, err := s.Show(ctx, "a", false)
				require.NoError(t, err)
				assert.Nil(t, lock.Slots[0].Broken)
				assert.Positive(t, ask("c", 0), "this one comes after")
			})
		})
	}
}

// A call that can't run ends no operation.
func TestACallThatIsOverReplacesNone(t *testing.T) {
	t.Parallel()
	inTwoProcesses(t, func(c *newestCase) {
		holder := c.ask(0, renewer.Request{Newest: renewer.NewestReplaces})
		ctx, cancel := context.WithCancel(c.t.Context())
		cancel()
		_, err := c.keepers[0].Acquire(ctx, renewer.Request{
			Name: "a", Newest: renewer.NewestReplaces,
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, holder.lease.Err())
		done := background(func() error { return c.keepers[0].Shutdown(context.Background()) })
		synctest.Wait()
		late := c.ask(0, renewer.Request{Newest: renewer.NewestReplaces})
		require.ErrorIs(t, late.err, renewer.ErrShutdown)
		require.NoError(t, holder.lease.Err())
		require.NoError(t, c.release(holder))
		require.NoError(t, <-done)
	})
}
