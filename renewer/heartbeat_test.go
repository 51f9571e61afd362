package renewer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var errDown = errors.New("connection refused")

// Whatever becomes of the heartbeats, the context ends at an exact instant:
// when the store says that the lease is over, or counted from the sending of
// the last confirmed request.
func TestBeliefEndsAtAnExactInstant(t *testing.T) {
	t.Parallel()
	last := func(calls []script.Call) time.Time { return calls[len(calls)-1].At }
	tests := []struct {
		name   string
		setup  func(s *script.Store)
		reason renewer.Reason
		want   func(s *script.Store) time.Time
	}{
		{
			name: "overwritten: at the answer that says so",
			setup: func(s *script.Store) {
				s.Script(script.Renew, script.Pass(), script.Taken(store.Holder{}, time.Second))
			},
			reason: renewer.ReasonTaken,
			want:   func(s *script.Store) time.Time { return last(s.Calls(script.Renew)) },
		},
		{
			name: "deleted, and the answer is slow: when it comes",
			setup: func(s *script.Store) {
				s.Script(script.Renew, script.Pass(), script.Gone().Late(1500*time.Millisecond))
			},
			reason: renewer.ReasonTaken,
			want: func(s *script.Store) time.Time {
				return last(s.Calls(script.Renew)).Add(1500 * time.Millisecond)
			},
		},
		{
			name:   "no heartbeat is ever answered: counted from the acquire",
			setup:  func(s *script.Store) { s.Default(script.Renew, script.Hang()) },
			reason: renewer.ReasonExpired,
			want: func(s *script.Store) time.Time {
				return s.Calls(script.Acquire)[0].At.Add(goodFor)
			},
		},
		{
			name: "the acquire's answer was slow: counted from its sending all the same",
			setup: func(s *script.Store) {
				s.Script(script.Acquire, script.Pass().Late(1900*time.Millisecond))
				s.Default(script.Renew, script.Hang())
			},
			reason: renewer.ReasonExpired,
			want: func(s *script.Store) time.Time {
				return s.Calls(script.Acquire)[0].At.Add(goodFor)
			},
		},
		{
			name: "hung after two that were confirmed",
			setup: func(s *script.Store) {
				s.Script(script.Renew, script.Pass(), script.Pass())
				s.Default(script.Renew, script.Hang())
			},
			reason: renewer.ReasonExpired,
			want: func(s *script.Store) time.Time {
				return s.Calls(script.Renew)[1].At.Add(goodFor)
			},
		},
		{
			name: "errors at once",
			setup: func(s *script.Store) {
				s.Script(script.Renew, script.Pass())
				s.Default(script.Renew, script.Fail(errDown))
			},
			reason: renewer.ReasonExpired,
			want: func(s *script.Store) time.Time {
				return s.Calls(script.Renew)[0].At.Add(goodFor)
			},
		},
		{
			name: "confirmed, but slowly: counted from the sending",
			setup: func(s *script.Store) {
				s.Script(script.Renew, script.Pass().Late(1900*time.Millisecond))
				s.Default(script.Renew, script.Hang())
			},
			reason: renewer.ReasonExpired,
			want: func(s *script.Store) time.Time {
				return s.Calls(script.Renew)[0].At.Add(goodFor)
			},
		},
		{
			name: "took effect, but the confirmation was lost: does not count",
			setup: func(s *script.Store) {
				s.Script(script.Renew, script.Pass())
				s.Default(script.Renew, script.Pass().Lost())
			},
			reason: renewer.ReasonExpired,
			want: func(s *script.Store) time.Time {
				return s.Calls(script.Renew)[0].At.Add(goodFor)
			},
		},
	}
	for i := range 2 * len(tests) {
		tt := tests[i/2]
		// With a context of the caller's that ends, the end loop keeps
		// the time of the acquire already; without, it sleeps until then.
		callers := []struct {
			name string
			ctx  func(t *testing.T) context.Context
		}{{"", (*testing.T).Context}, {
			", for a caller that nothing cancels",
			func(*testing.T) context.Context {
				return context.Background()
			},
		}}[i%2]
		t.Run(tt.name+callers.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				waitFor(time.Minute) // the engine's goroutines sleep
				tt.setup(s)
				l, err := k.Acquire(callers.ctx(t), renewer.Request{Name: "a"})
				require.NoError(t, err)
				require.True(t, l.Valid())
				at, lost := lostAt(t, l)
				assertInstant(t, tt.want(s), at, "end of the context")
				assert.Equal(t, tt.reason, lost.Reason)
				assert.Equal(t, l.Fence(), lost.Fence)
				require.NotErrorIs(t, lost, context.DeadlineExceeded, "a heartbeat's end")
				require.NotErrorIs(t, lost, context.Canceled)
				if tt.reason == renewer.ReasonExpired {
					assert.Empty(t, lost.Found, "in its place: nobody has looked")
					assert.ErrorContains(t, lost, "no renewal was confirmed in time")
					assert.InDelta(t, config.Margin, lost.Left, float64(rounding),
						"the notice given is the margin")
				} else {
					assert.Zero(t, lost.Left)
				}
				require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
			})
		})
	}
}

// A heartbeat that fails at once is tried again after a pause, so that many
// leases don't hammer a server that is in trouble: between a sixteenth and
// an eighth of RequestTimeout, and what gathers leases into one.
func TestAFailedHeartbeatIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Renew, script.Fail(errDown))
		<-l.Context().Done()
		calls := s.Calls(script.Renew)
		require.Greater(t, len(calls), 20)
		for i := range calls[1:] {
			pause := calls[i+1].At.Sub(calls[i].At)
			require.Greater(t, pause, config.RequestTimeout/16)
			require.LessOrEqual(t, pause, config.RequestTimeout/8+5*time.Millisecond)
		}
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

func TestTwoFailedHeartbeatsDoNotDisturb(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"refused": script.Fail(errDown),
		"hung":    script.Hang(), "reply lost": script.Pass().Lost(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				l := acquire(t, k, "a")
				for range 20 {
					s.Script(script.Renew, step, step)
					waitFor(9 * time.Second)
					require.NoError(t, context.Cause(l.Context()))
					require.True(t, l.Valid())
				}
				require.Zero(t, s.Left(script.Renew), "every failure was played")
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

// An answer that comes after the context has ended does not bring the
// lease back, even from a store that ignores deadlines.
func TestLateAnswerDoesNotRevive(t *testing.T) {
	t.Parallel()
	onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
		s.renew = func(ctx context.Context, holds []store.Hold) []store.Answer {
			waitFor(goodFor)
			return s.Store.Renew(context.WithoutCancel(ctx), holds)
		}
		l := acquire(t, k, "a")
		at, lost := lostAt(t, l)
		assertInstant(t, s.Calls(script.Acquire)[0].At.Add(goodFor), at, "end of the context")
		require.Equal(t, renewer.ReasonExpired, lost.Reason)
		waitFor(30 * time.Second) // the answers come in
		require.False(t, l.Valid())
		require.Zero(t, l.Remaining())
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// Not even one that comes at the very instant at which the context ends,
// whichever is seen first.
func TestAnAnswerAtTheLastInstantDoesNotRevive(t *testing.T) {
	t.Parallel()
	for range 50 { // the order of two things at one instant is random
		onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
			const good = 10100*time.Millisecond*99/101 - time.Millisecond // of the TTL in config
			end := time.Now().Add(good - config.Margin)
			s.renew = func(ctx context.Context, holds []store.Hold) []store.Answer {
				if time.Until(end) > time.Second { // too early to be confirmed then
					return []store.Answer{{Err: errDown}}
				}
				waitFor(time.Until(end))
				return s.Store.Renew(context.WithoutCancel(ctx), holds)
			}
			l := acquire(t, k, "a")
			require.Equal(t, end, time.Now().Add(l.Remaining()))
			at, lost := lostAt(t, l)
			require.Equal(t, end, at)
			require.Equal(t, renewer.ReasonExpired, lost.Reason)
			require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		})
	}
}

func TestHoursOfHeartbeats(t *testing.T) {
	t.Parallel()
	cfg := renewer.Config{TTL: 30 * time.Second, Heartbeat: 10 * time.Second}
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		hours := suite.Size(4, 7*24)
		waitFor(time.Duration(hours) * time.Hour)
		require.True(t, l.Valid())
		require.Len(t, s.Calls(script.Renew), hours*360, "one heartbeat an interval")
		require.Len(t, s.Calls(script.Acquire), 1)
		require.NoError(t, l.Release(t.Context()))
	})
}

// A heartbeat that hangs delays neither the next heartbeat nor other
// leases, and is not delayed itself: its lease is told in time.
func TestHungHeartbeatDelaysNobody(t *testing.T) {
	t.Parallel()
	cfg := config // but with time for more tries apart from the one that hangs
	cfg.TTL, cfg.Margin = 20200*time.Millisecond, 1799*time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{Store: script.New()}
		s.renew = func(ctx context.Context, holds []store.Hold) []store.Answer {
			if slices.ContainsFunc(holds, func(h store.Hold) bool { return h.Name == "0" }) {
				<-ctx.Done()
				return make([]store.Answer, len(holds))
			}
			return s.Store.Renew(ctx, holds)
		}
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		bad := acquire(t, k, "0")
		var good []*renewer.Lease
		for i := 1; i < 200; i++ {
			good = append(good, acquire(t, k, fmt.Sprint(i)))
		}
		at, _ := lostAt(t, bad)
		assertInstant(t, s.Calls(script.Acquire)[0].At.Add(2*goodFor), at, "end of the context")
		waitFor(time.Minute)
		for _, l := range good {
			require.True(t, l.Valid())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, k.Shutdown(ctx), "200 operations still ran",
			"the one that was told a minute ago too")
		waitFor(time.Minute) // Shutdown ends behind its caller's back
	})
}

// Until a heartbeat is confirmed, each brings the lease's fencing token, for a
// store that notes it only then; and so does the release of a lock that is
// kept.
func TestTheFirstHeartbeatBringsTheToken(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Renew, script.Fail(errDown))
		lease := acquire(t, k, "a")
		for len(s.Calls(script.Renew)) < 4 {
			waitFor(100 * time.Millisecond)
		}
		var tokens []int64
		for _, c := range s.Calls(script.Renew) {
			tokens = append(tokens, c.Holds[0].Fence)
		}
		assert.Equal(t, []int64{lease.Fence(), lease.Fence(), 0, 0}, tokens[:4])
		require.NoError(t, lease.Release(t.Context()))

		kept := acquire(t, k, "b")
		kept.HoldAtLeast(time.Minute)
		require.NoError(t, kept.Release(t.Context()))
		released := s.Calls(script.Release)
		assert.Equal(t, kept.Fence(), released[len(released)-1].Holds[0].Fence)
	})
}
