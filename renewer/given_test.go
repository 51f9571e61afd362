package renewer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// tells is a store whose next grants answer the first claim from a place.
type tells struct {
	*script.Store
	late  atomic.Int32 // how many
	leave func()       // called in the same moment
}

func (s *tells) Engine() store.Store { return s }

func (s *tells) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := s.Store.Acquire(ctx, claims)
	if grants[0].Status == store.StatusHeld && s.late.Load() > 0 {
		s.late.Add(-1)
		grants[0].Late = true
		if s.leave != nil {
			s.leave()
		}
	}
	return grants
}

// inLineFor has a caller stand in line for a time, from a place that it came to
// at an instant, and then hear that the claim was granted, as late says so
// often.
func inLineFor(
	t *testing.T, waits time.Duration, late int32, then ...script.Step,
) (s *tells, l *renewer.Lease, first time.Time) {
	t.Helper()
	s = &tells{Store: script.New()}
	s.SetSettle(time.Second)
	k, err := renewer.New(s, config)
	require.NoError(t, err)
	t.Cleanup(func() { shutDown(t, k) })
	s.Default(script.Acquire, inLine)
	got := make(chan *renewer.Lease)
	go func() {
		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
		assert.NoError(t, err)
		got <- l
	}()
	first = time.Now()
	synctest.Wait()
	s.Mute(true)
	waitFor(waits)
	asked := len(s.Calls(script.Acquire))
	s.late.Store(late)
	s.Default(script.Renew, script.Hang()) // its heartbeat may be due at once
	s.Script(script.Acquire, then...)
	s.Mute(false)
	s.Wake("a", nil)
	l = <-got
	calls := s.Calls(script.Acquire)
	require.Len(t, calls, asked+len(then))
	for _, c := range calls {
		require.Equal(t, calls[0].Claims[0].Owner, c.Claims[0].Owner, "one owner")
		require.Equal(t, calls[0].Claims[0].Place, c.Claims[0].Place, "of one place")
	}
	return s, l, first
}

// What a release has granted to a place is believed from when the place was
// first presented: no later answer that it stands in line makes it younger, and
// it was granted after that.
func TestALateGrantCountsFromTheFirstClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const waits = 3 * time.Second
		s, l, first := inLineFor(t, waits, 1, script.Held())
		assertInstant(t, first.Add(goodFor), time.Now().Add(l.Remaining()), "believed until")
		s.Default(script.Renew, script.Pass())
		waitFor(time.Minute)
		require.NoError(t, l.Err(), "heartbeats keep it as any other")
		require.NoError(t, l.Release(t.Context()))
	})
}

// One that is too old to be of use is claimed, by the same owner, at once; so
// is one that a process hears of that was frozen in line for longer than its
// TTL, also if the store tells of it over and over.
func TestALateGrantThatIsOldIsClaimed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits time.Duration
		late  int32
		then  []script.Step
	}{
		"a heartbeat is overdue": {
			config.Heartbeat + time.Millisecond, 1, []script.Step{script.Held(), script.Held()},
		},
		"it is over": {time.Minute, 1, []script.Step{script.Held(), script.Held()}},
		"told twice": {time.Minute, 2, []script.Step{script.Held(), script.Held(), script.Held()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, l, _ := inLineFor(t, c.waits, c.late, c.then...)
				assert.Zero(t, s.late.Load())
				assertInstant(t, time.Now().Add(goodFor), time.Now().Add(l.Remaining()), "as claimed now")
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

// Who leaves while another caller of the process waits frees nothing: the next
// one has the claim, and believes in its grant from when the one who left first
// sent it.
func TestAGrantOutlivesWhoClaimedIt(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"in line": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &tells{Store: script.New()}
				s.SetSettle(20 * time.Second)
				k, err := renewer.New(s, config)
				require.NoError(t, err)
				if answered {
					s.Default(script.Acquire, inLine)
				} else {
					s.Default(script.Acquire, script.Hang())
				}
				ctx, leave := context.WithCancel(t.Context())
				begun := time.Now()
				first := waits(ctx, k)
				got := make(chan *renewer.Lease)
				go func() {
					l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
					assert.NoError(t, err)
					got <- l
				}()
				waitFor(time.Second)
				s.Default(script.Acquire, script.Held())
				s.late.Store(1)
				leave()
				require.ErrorIs(t, <-first, context.Canceled)
				l := <-got
				assertInstant(t, begun.Add(goodFor), time.Now().Add(l.Remaining()), "believed until")
				assert.Empty(t, s.Calls(script.Release), "it is another's now")
				calls := s.Calls(script.Acquire)
				a, b := calls[0].Claims[0], calls[len(calls)-1].Claims[0]
				assert.Equal(t, a.Owner, b.Owner)
				assert.Equal(t, a.Place, b.Place)
				require.NoError(t, l.Release(t.Context()))
				waitFor(20 * time.Second)
				freed := s.Calls(script.Release)
				if answered {
					require.Len(t, freed, 1)
				} else {
					require.Len(t, freed, 2)
					assertInstant(t, begun.Add(20*time.Second), freed[1].At, "what is settled by then")
				}
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}

// What a front has left unanswered the store may carry out yet. The one behind
// it hears that the name is another's, and leaves too: the claim is freed with
// its place, at once and when it can't take effect any longer.
func TestAClaimThatAFrontHasLeftIsFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const settle = 20 * time.Second
		s := &tells{Store: script.New()}
		s.SetSettle(settle)
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		s.Default(script.Acquire, script.Hang())
		ctx, leave := context.WithCancel(t.Context())
		later, leaveLater := context.WithCancel(t.Context())
		first := waits(ctx, k)
		begun := time.Now()
		second := waits(later, k)
		waitFor(time.Second)
		s.Default(script.Acquire, script.Taken(other, time.Hour))
		leave()
		require.ErrorIs(t, <-first, context.Canceled)
		waitFor(time.Second)
		asked := s.Calls(script.Acquire)[0].Claims[0]
		left := time.Now()
		leaveLater()
		require.ErrorIs(t, <-second, context.Canceled)
		waitFor(settle)
		calls := s.Calls(script.Release)
		require.NotEmpty(t, calls)
		for _, c := range calls {
			assert.Equal(t, asked.Owner, c.Holds[0].Owner)
		}
		assert.Equal(t, asked.Place, calls[0].Holds[0].Place)
		assertInstant(t, left, calls[0].At, "at once")
		assertInstant(t, begun.Add(settle), calls[len(calls)-1].At, "when it is settled")
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// Who leaves while it hears of its grant frees that again when its latest
// question can't take effect any longer, and not only the first.
func TestALateGrantOfOneWhoHasLeftIsFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const settle = 20 * time.Second
		s := &tells{Store: script.New()}
		s.SetSettle(settle)
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		s.Script(script.Acquire, inLine)
		s.Default(script.Acquire, script.Hang())
		ctx, leave := context.WithCancel(t.Context())
		done := waits(ctx, k)
		waitFor(3 * time.Second) // and is not answered
		s.Wake("a", nil)
		synctest.Wait()
		hangs := s.Calls(script.Acquire)
		s.leave = leave
		s.late.Store(1)
		s.Default(script.Acquire, script.Held())
		require.ErrorIs(t, <-done, context.Canceled)
		waitFor(2 * settle)
		calls := s.Calls(script.Release)
		require.NotEmpty(t, calls)
		latest := hangs[len(hangs)-1].At
		last := calls[len(calls)-1].At
		assert.False(t, last.Before(latest.Add(settle)), "%v after it", last.Sub(latest))
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// Who leaves as it hears of its grant frees that, and the next one asks from
// another place: told once more, the message would answer its claim.
func TestNobodyGoesOnFromAPlaceWhoseGrantWasHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &tells{Store: script.New()}
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		s.Default(script.Acquire, inLine)
		ctx, leave := context.WithCancel(t.Context())
		first, second := waits(ctx, k), waits(t.Context(), k)
		heard := s.Calls(script.Acquire)[0].Claims[0]
		s.leave = leave
		s.late.Store(1)
		s.Script(script.Acquire, script.Held(), script.Held())
		s.Wake("a", nil)
		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, <-second)
		calls := s.Calls(script.Acquire)
		next := calls[len(calls)-1].Claims[0]
		assert.NotEqual(t, heard.Owner, next.Owner)
		assert.NotEqual(t, heard.Place, next.Place)
		synctest.Wait()
		freed := make(map[string]uint64)
		for _, c := range s.Calls(script.Release) {
			freed[c.Holds[0].Owner] = c.Holds[0].Place
		}
		assert.Equal(t, map[string]uint64{heard.Owner: heard.Place, next.Owner: 0}, freed)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A lease that was broken before its owner knew of it ends the place as well:
// an owner token is for one lease.
func TestABrokenGrantEndsItsPlace(t *testing.T) {
	t.Parallel()
	onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
		s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
			grants := s.Store.Acquire(ctx, claims)
			grants[0].Broken = len(s.Calls(script.Acquire)) == 2
			return grants
		}
		s.Script(script.Acquire, inLine, inLine, inLine)
		l := acquire(t, k, "a")
		calls := s.Calls(script.Acquire)
		first, last := calls[0].Claims[0], calls[len(calls)-1].Claims[0]
		assert.NotEqual(t, first.Owner, last.Owner)
		assert.NotEqual(t, first.Place, last.Place)
		freed := s.Calls(script.Release)[0].Holds[0]
		assert.Equal(t, first.Owner, freed.Owner)
		assert.Equal(t, first.Place, freed.Place)
		require.NoError(t, l.Release(t.Context()))
	})
}

// A server that has lost its data since it granted a place may have that in
// line again, for the owner that it was granted to. So a lease that is found
// gone gives up its place.
func TestThePlaceOfAGrantThatIsGoneIsGivenUp(t *testing.T) {
	t.Parallel()
	told, asked := []script.Step{script.Held()}, []script.Step{script.Fail(errDown), script.Held()}
	for name, c := range map[string]struct {
		late  int32
		then  []script.Step
		heard bool
	}{
		"told, gone by a heartbeat":        {1, told, true},
		"told, gone by its release":        {1, told, false},
		"asked twice, gone by a heartbeat": {0, asked, true},
		"asked twice, gone by its release": {0, asked, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, l, _ := inLineFor(t, time.Second, c.late, c.then...)
				place := s.Calls(script.Acquire)[0].Claims[0].Place
				s.Script(script.Release, script.Gone())
				if c.heard {
					s.Default(script.Renew, script.Gone())
					s.Mute(true)
					waitFor(config.TTL)
					s.Mute(false)
				}
				require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
				synctest.Wait()
				releases := s.Calls(script.Release)
				require.NotEmpty(t, releases)
				require.Equal(t, place, releases[len(releases)-1].Holds[0].Place)
			})
		})
	}
}
