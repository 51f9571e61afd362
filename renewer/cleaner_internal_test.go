package renewer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// releases is a store that notes when it is asked to free which key. While down is not nil it does
// not answer for any.
type releases struct {
	Store
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

func (s *releases) Release(_ context.Context, holds []Hold) []Answer {
	s.mu.Lock()
	answers := make([]Answer, len(holds))
	for i, h := range holds {
		s.asks = append(s.asks, ask{h.Name, h.Keep, time.Since(s.begun)})
		if answers[i] = (Answer{Status: StatusHeld}); s.down != nil {
			answers[i] = Answer{Err: s.down}
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
	NopObserver
	mu sync.Mutex
	n  int
}

func (f *faults) Fault(Fault) {
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
func onCleaner(t *testing.T, f func(t *testing.T, c *cleaner, s *releases, o *faults)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &releases{begun: time.Now(), took: time.Millisecond}
		o := &faults{}
		c := newCleaner(s, Config{TTL: 10 * time.Second, RequestTimeout: time.Second, Observer: o},
			timing.NewClock(func() time.Duration { return 0 }), new(goroutines),
			func(ctx context.Context) context.Context { return ctx })
		f(t, c, s, o)
		c.goroutines.Wait()
	})
}

func orphaned(name string) *orphan {
	return &orphan{hold: Hold{Name: name, Owner: "owner"}, ttl: 10 * time.Second}
}

// A key is counted from when it is disowned until the store has freed it.
func TestTheCleanerCountsWhatItHasToFree(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.took = time.Second
		c.disown(orphaned("a"), 0)
		c.disown(orphaned("b"), 0)
		require.Equal(t, 2, c.count())
		<-time.After(999 * time.Millisecond)
		require.Len(t, s.asked(), 2, "on two shards at the same time")
		require.Equal(t, 2, c.count(), "it is not known yet whether they are free")
		<-time.After(2 * time.Millisecond)
		require.Zero(t, c.count())
		c.disown(orphaned("a"), 0) // its sweeper has gone
		<-time.After(2 * time.Second)
		require.Zero(t, c.count())
	})
}

func TestTheCleanerTriesAgainUntilAKeyHasLapsed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, o *faults) {
		s.setDown(errDown)
		c.disown(orphaned("a"), 0)
		<-time.After(9 * time.Second)
		require.Equal(t, 1, c.count())
		tries := len(s.asked())
		require.Greater(t, tries, 8)
		require.Less(t, tries, 30)
		<-time.After(2 * time.Second)
		require.Zero(t, c.count())
		require.Equal(t, tries+len(s.asked()), o.count(), "each is told of")
	})
}

// What an unanswered acquire may bring back is deleted once more soon, as the clean-up may have
// overtaken it, and when it can't come any longer.
func TestTheCleanerComesBackForAnUnansweredAcquire(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		now := c.clock.Now()
		c.disown(orphaned("a"), now)
		c.revisit(orphaned("b"), now, now)
		c.revisit(orphaned("d"), now.Add(-5*time.Second), now)
		require.Equal(t, 2, c.count())
		<-time.After(4 * time.Second)
		require.Equal(t, []ask{{"a", 0, 0}, {"a", 0, overtakenFor}}, s.asked())
		require.Equal(t, 2, c.count())
		c.disown(orphaned("a, too"), 0) // its sweeper sleeps
		synctest.Wait()
		require.Equal(t, []ask{{"a, too", 0, 4 * time.Second}}, s.asked())
		<-time.After(2 * time.Second)
		require.ElementsMatch(t, []ask{{"a", 0, s.settle}, {"b", 0, s.settle}}, s.asked())
		require.Zero(t, c.count())
	})
}

// A key that an unanswered acquire may bring back lives for a TTL from then.
func TestTheCleanerKnowsWhenABroughtBackKeyLapses(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		s.setDown(errDown)
		c.disown(orphaned("a"), c.clock.Now())
		<-time.After(14 * time.Second)
		require.Equal(t, 1, c.count())
		<-time.After(3 * time.Second)
		require.Zero(t, c.count())
	})
}

// Shutdown does not insist on what was deleted once already, and only may come back.
func TestShutdownInsistsOnNoSecondDeletion(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.settle = 5 * time.Second
		c.disown(orphaned("a"), c.clock.Now())
		<-time.After(time.Second)
		c.collect()
		s.asked()
		s.setDown(errDown)
		n, err := c.freeAll(t.Context(), t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Len(t, s.asked(), 1)
	})
}

// The time for which a key is to be held in any case counts from the request, however late that is.
func TestTheCleanerKeepsAKeyForItsLeastTime(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		o := orphaned("a")
		o.least = c.clock.Now().Add(3 * time.Second)
		c.disown(o, 0)
		<-time.After(2 * time.Second)
		s.setDown(nil)
		<-time.After(2 * time.Second)
		asks := s.asked()
		for _, a := range asks {
			want := max(0, 3*time.Second-a.at)
			assert.InDelta(t, want, a.keep, float64(2*time.Millisecond), a.at)
		}
		require.Zero(t, c.count())
	})
}

// From collect on no key is freed in the background, no failure is a fault, and none is missed.
func TestTheCleanerLeavesTheRestToShutdown(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, o *faults) {
		s.setDown(errDown)
		s.took = time.Second
		c.disown(orphaned("a"), 0)
		<-time.After(time.Second / 2)
		c.collect() // while the request is under way
		c.disown(orphaned("b"), 0)
		free := orphaned("c")
		freed := 0
		free.freed = func() { freed++ }
		c.leave(free)
		require.Equal(t, 3, c.count())
		<-time.After(5 * time.Second)
		require.Len(t, s.asked(), 1, "nothing in the background")
		require.Zero(t, o.count())

		c.freeOnce(t.Context())
		require.Len(t, s.asked(), 3)
		require.Equal(t, 3, c.count())
		require.Zero(t, freed)

		go func() {
			<-time.After(3 * time.Second)
			s.setDown(nil)
		}()
		n, err := c.freeAll(t.Context(), t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Equal(t, 1, freed)
		require.Zero(t, c.count())
	})
}

// Shutdown gives keys up when the last of them has lapsed by itself, as each was told to live.
func TestShutdownGivesUpWhatHasLapsed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		c.collect()
		short, long := orphaned("a"), orphaned("a")
		long.ttl = time.Minute
		c.leave(short)
		c.leave(long)
		begun := time.Now()
		n, err := c.freeAll(t.Context(), t.Context())
		require.Equal(t, 2, n)
		require.ErrorIs(t, err, errDown)
		assert.InDelta(t, time.Minute, time.Since(begun), float64(2*time.Second))
	})
}

// What a sweeper frees while Shutdown begins is not asked for again, and no error if the store is
// down from then on.
func TestShutdownDoesNotAskForWhatASweeperHasFreed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		c.disown(orphaned("a"), 0)
		synctest.Wait()
		c.collect() // while the request is under way
		<-time.After(time.Second)
		require.Len(t, s.asked(), 1)
		s.setDown(errDown)
		n, err := c.freeAll(t.Context(), t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Empty(t, s.asked())
		require.Zero(t, c.count())
	})
}

// What Shutdown has freed stays freed when the question of a sweeper fails behind it.
func TestASweeperDoesNotUndoWhatShutdownHasFreed(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		s.took = time.Second
		c.disown(orphaned("a"), 0)
		synctest.Wait()
		c.collect() // while the request is under way
		s.setDown(nil)
		s.took = time.Millisecond
		again, _ := c.ask(t.Context(), c.left)
		require.Empty(t, again)
		<-time.After(2 * time.Second)
		require.Len(t, s.asked(), 2)
		s.setDown(errDown)
		n, err := c.close(t.Context())
		require.Zero(t, n)
		require.NoError(t, err)
		require.Empty(t, s.asked())
	})
}

// What freeAll gives up is reported once, and after close a key is freed by the caller that disowns
// it.
func TestTheCleanerAfterItsEnd(t *testing.T) {
	t.Parallel()
	onCleaner(t, func(t *testing.T, c *cleaner, s *releases, _ *faults) {
		s.setDown(errDown)
		c.collect()
		c.disown(orphaned("a"), 0)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		n, err := c.freeAll(ctx, t.Context())
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, errDown)
		c.disown(orphaned("b"), 0)
		s.asked()
		n, err = c.close(t.Context())
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, "b", s.asked()[0].name)

		c.disown(orphaned("c"), 0)
		require.Len(t, s.asked(), 1)
		require.Zero(t, c.count())
	})
}
