package cleanup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// releases is a store that notes when it is asked to free which key. While down
// is not nil it does not answer for any.
type releases struct {
	store.Store
	begun  time.Time
	settle time.Duration
	took   time.Duration // an answer

	mu   sync.Mutex
	down error
	asks []ask
}

type ask struct {
	name string
	keep time.Duration
	at   time.Duration
}

func (s *releases) Settle() time.Duration { return s.settle }

func (s *releases) Shard(name string) int { return int(name[0] - 'a') }

func (s *releases) Release(_ context.Context, holds []store.Hold) []store.Answer {
	s.mu.Lock()
	answers := make([]store.Answer, len(holds))
	for i, h := range holds {
		s.asks = append(s.asks, ask{h.Name, h.Keep, time.Since(s.begun)})
		if answers[i] = (store.Answer{Status: store.StatusHeld}); s.down != nil {
			answers[i] = store.Answer{Err: s.down}
		}
	}
	s.mu.Unlock()
	<-time.After(s.took)
	return answers
}

func (s *releases) setDown(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = why
}

// asked is what was asked since the last call, and when.
func (s *releases) asked() []ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	asks := s.asks
	s.asks = nil
	return asks
}

// faults counts them.
type faults struct {
	mu sync.Mutex
	n  int
}

func (f *faults) add(string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

var errDown = errors.New("down")

// onCleaner runs f with a cleaner that has no keeper, on a store with a
// shard for each first letter. Its goroutines are to end by themselves.
func onCleaner(t *testing.T, f func(t *testing.T, c *Cleaner, s *releases, o *faults)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &releases{begun: time.Now(), took: time.Millisecond}
		o := &faults{}
		var goroutines sync.WaitGroup
		c := New(s, Config{
			RequestTimeout: time.Second,
			Clock:          timing.NewClock(func() time.Duration { return 0 }),
			Run:            goroutines.Go, Limit: context.Background, Fault: o.add,
		})
		f(t, c, s, o)
		goroutines.Wait()
	})
}

func orphaned(name string) *Orphan {
	return &Orphan{Hold: store.Hold{Name: name, Owner: "owner"}, TTL: 10 * time.Second}
}

// A key is counted from when it is disowned until the store has freed it.
func TestTheCleanerCountsWhatItHasToFree(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.took = time.Second
		c.Disown(orphaned("a"), 0)
		c.Disown(orphaned("b"), 0)
		require.Equal(t, 2, c.Count())
		<-time.After(999 * time.Millisecond)
		require.Len(t, s.asked(), 2, "on two shards at the same time")
		require.Equal(t, 2, c.Count(), "it is not known yet whether they are free")
		<-time.After(2 * time.Millisecond)
		require.Zero(t, c.Count())
		c.Disown(orphaned("a"), 0) // its sweeper has gone
		<-time.After(2 * time.Second)
		require.Zero(t, c.Count())
	})
}

// When the store is back, a key that was not freed is free as soon as a caller
// who waits asks.
func TestAKeyIsFreeSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	for range 20 { // pauses differ
		onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
			s.setDown(errDown)
			c.Disown(orphaned("a"), 0)
			<-time.After(5 * time.Second)
			s.setDown(nil)
			<-time.After(asking.ProbePause + s.took)
			require.Zero(t, c.Count())
		})
	}
}

func TestTheCleanerTriesAgainUntilAKeyHasLapsed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, o *faults) {
		s.setDown(errDown)
		c.Disown(orphaned("a"), 0)
		<-time.After(9 * time.Second)
		require.Equal(t, 1, c.Count())
		tries := len(s.asked())
		require.Greater(t, tries, 8)
		require.Less(t, tries, 45)
		<-time.After(2 * time.Second)
		require.Zero(t, c.Count())
		require.Equal(t, tries+len(s.asked()), o.count(), "each is told of")
	})
}

// What an unanswered acquire may bring back is deleted once more soon, as the
// clean-up may have overtaken it, and when it can't come any longer.
func TestTheCleanerComesBackForAnUnansweredAcquire(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		now := c.cfg.Clock.Now()
		c.Disown(orphaned("a"), now)
		c.Revisit(orphaned("b"), now, now)
		c.Revisit(orphaned("d"), now.Add(-5*time.Second), now)
		require.Equal(t, 2, c.Count())
		<-time.After(4 * time.Second)
		require.Equal(t, []ask{{"a", 0, 0}, {"a", 0, overtakenFor}}, s.asked())
		require.Equal(t, 2, c.Count())
		c.Disown(orphaned("a, too"), 0) // its sweeper sleeps
		synctest.Wait()
		require.Equal(t, []ask{{"a, too", 0, 4 * time.Second}}, s.asked())
		<-time.After(2 * time.Second)
		require.ElementsMatch(t, []ask{{"a", 0, s.settle}, {"b", 0, s.settle}}, s.asked())
		require.Zero(t, c.Count())
	})
}

// A server that stood still carries out an unanswered acquire when it goes on:
// the key used to be forgotten when it would have lapsed, and kept others out
// for a TTL more.
func TestTheCleanerOutlastsAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		s.setDown(errDown)
		now := c.cfg.Clock.Now()
		c.Disown(orphaned("a"), now)
		c.Revisit(orphaned("b"), now, now)
		<-time.After(5 * time.Minute)
		require.Equal(t, 2, c.Count())
		s.asked()
		s.setDown(nil)
		<-time.After(s.settle + 2*time.Second)
		require.Zero(t, c.Count())
		require.Len(t, s.asked(), 2*5, "again, as the acquire may have been overtaken")
	})
}

// It is given up in the end, so that what is kept is bounded.
func TestTheCleanerGivesUpAServerThatStaysAway(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		s.setDown(errDown)
		c.Disown(orphaned("a"), c.cfg.Clock.Now())
		<-time.After(standsStill + s.settle + 12*time.Second)
		require.Zero(t, c.Count())
	})
}

// One that stands in line may be granted what it asked for long ago, when the
// place is given up at last.
func TestTheCleanerTriesAgainHoweverLongAgoTheAcquireWas(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		asked := c.cfg.Clock.Now()
		<-time.After(time.Minute)
		s.setDown(errDown)
		c.Disown(orphaned("a"), asked)
		<-time.After(time.Second)
		require.Equal(t, 1, c.Count())
		s.setDown(nil)
		<-time.After(s.settle + 2*time.Second)
		require.Zero(t, c.Count())
	})
}

// Shutdown does not insist on what was deleted once already, and only may come
// back.
func TestShutdownInsistsOnNoSecondDeletion(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		c.Disown(orphaned("a"), c.cfg.Clock.Now())
		<-time.After(time.Second)
		c.Collect()
		s.asked()
		s.setDown(errDown)
		n, err := c.FreeAll(t.Context(), t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Len(t, s.asked(), 1)
	})
}

// The time for which a key is to be held in any case counts from the request,
// however late that is.
func TestTheCleanerKeepsAKeyForItsLeastTime(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		o := orphaned("a")
		o.Least = c.cfg.Clock.Now().Add(3 * time.Second)
		c.Disown(o, 0)
		<-time.After(2 * time.Second)
		s.setDown(nil)
		<-time.After(2 * time.Second)
		asks := s.asked()
		for _, a := range asks {
			want := max(0, 3*time.Second-a.at)
			assert.InDelta(t, want, a.keep, float64(2*time.Millisecond), a.at)
		}
		require.Zero(t, c.Count())
	})
}

// From collect on no key is freed in the background, no failure is a fault, and
// none is missed.
func TestTheCleanerLeavesTheRestToShutdown(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, o *faults) {
		s.setDown(errDown)
		s.took = time.Second
		c.Disown(orphaned("a"), 0)
		<-time.After(time.Second / 2)
		c.Collect() // while the request is under way
		c.Disown(orphaned("b"), 0)
		free := orphaned("c")
		freed := 0
		free.Freed = func() { freed++ }
		c.Leave(free)
		require.Equal(t, 3, c.Count())
		<-time.After(5 * time.Second)
		require.Len(t, s.asked(), 1, "nothing in the background")
		require.Zero(t, o.count())

		c.FreeOnce(t.Context())
		require.Len(t, s.asked(), 3)
		require.Equal(t, 3, c.Count())
		require.Zero(t, freed)

		go func() {
			<-time.After(3 * time.Second)
			s.setDown(nil)
		}()
		n, err := c.FreeAll(t.Context(), t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Equal(t, 1, freed)
		require.Zero(t, c.Count())
	})
}

// Shutdown gives keys up when the last of them has lapsed by itself, as each
// was told to live.
func TestShutdownGivesUpWhatHasLapsed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		c.Collect()
		short, long := orphaned("a"), orphaned("a")
		long.TTL = time.Minute
		c.Leave(short)
		c.Leave(long)
		begun := time.Now()
		n, err := c.FreeAll(t.Context(), t.Context())
		require.Equal(t, 2, n)
		require.ErrorIs(t, err, errDown)
		assert.InDelta(t, time.Minute, time.Since(begun), float64(2*time.Second))
	})
}

// What a sweeper frees while Shutdown begins is not asked for again, and no
// error if the store is down from then on.
func TestShutdownDoesNotAskForWhatASweeperHasFreed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		c.Disown(orphaned("a"), 0)
		synctest.Wait()
		c.Collect() // while the request is under way
		<-time.After(time.Second)
		require.Len(t, s.asked(), 1)
		s.setDown(errDown)
		n, err := c.FreeAll(t.Context(), t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Empty(t, s.asked())
		require.Zero(t, c.Count())
	})
}

// What Shutdown has freed stays freed when the question of a sweeper fails
// behind it.
func TestASweeperDoesNotUndoWhatShutdownHasFreed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		s.took = time.Second
		c.Disown(orphaned("a"), 0)
		synctest.Wait()
		c.Collect() // while the request is under way
		s.setDown(nil)
		s.took = time.Millisecond
		again, _ := c.ask(t.Context(), c.left)
		require.Empty(t, again)
		<-time.After(2 * time.Second)
		require.Len(t, s.asked(), 2)
		s.setDown(errDown)
		n, err := c.Close(t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Empty(t, s.asked())
	})
}

// What freeAll gives up is reported once, and after close a key is freed by the
// caller that disowns it.
func TestTheCleanerAfterItsEnd(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *Cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		c.Collect()
		c.Disown(orphaned("a"), 0)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		n, err := c.FreeAll(ctx, t.Context())
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, errDown)
		c.Disown(orphaned("b"), 0)
		s.asked()
		n, err = c.Close(t.Context())
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, "b", s.asked()[0].name)

		c.Disown(orphaned("c"), 0)
		require.Len(t, s.asked(), 1)
		require.Zero(t, c.Count())
	})
}
