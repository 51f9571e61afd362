package script_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

var errDown = errors.New("down")

func acquire(ctx context.Context, s *script.Store, owner string) store.Grant {
	return s.Acquire(ctx, []store.Claim{
		{Name: "n", Owner: owner, TTL: ttl, Holder: store.Holder{Node: owner}},
	})[0]
}

func renew(ctx context.Context, s *script.Store, owner string) store.Answer {
	return s.Renew(ctx, []store.Hold{{Name: "n", Owner: owner, TTL: ttl}})[0]
}

func release(ctx context.Context, s *script.Store, owner string) store.Answer {
	return s.Release(ctx, []store.Hold{{Name: "n", Owner: owner}})[0]
}

// took returns how long f takes by the bubble's clock.
func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func bubble(t *testing.T, f func(t *testing.T, s *script.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, script.New()) })
}

func TestStepsAnswerCallsInOrderThenTheDefault(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		s.Script(script.Acquire, script.Fail(errDown),
			script.Taken(store.Holder{Node: "x"}, time.Second), script.Granted(41))
		assert.Equal(t, store.Grant{Err: errDown}, acquire(t.Context(), s, "a"))
		assert.Equal(t, store.Grant{
			Status: store.StatusTaken, Holder: store.Holder{Node: "x"},
			TTL: time.Second,
		}, acquire(t.Context(), s, "a"))
		assert.Equal(t, 1, s.Left(script.Acquire))
		assert.Equal(t, store.Grant{Status: store.StatusHeld, Fence: 41},
			acquire(t.Context(), s, "a"))

		<-time.After(3 * time.Second)
		want := store.Grant{
			Status: store.StatusTaken, Holder: store.Holder{Node: "a"},
			HeldFor: 3 * time.Second, TTL: 7 * time.Second,
		}
		assert.Equal(t, want, acquire(t.Context(), s, "b"),
			"the list is used up, and the store believes what it said")
		assert.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
		assert.Equal(t, store.Grant{Status: store.StatusHeld, Fence: 42},
			acquire(t.Context(), s, "b"))

		s.Default(script.Renew, script.Fail(errDown))
		for range 3 {
			assert.Equal(t, store.Answer{Err: errDown}, renew(t.Context(), s, "b"))
		}
	})
}

func TestMineIsBelievedByLaterPasses(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		s.Script(script.Acquire, script.Held())
		s.Script(script.Renew, script.Held(), script.Pass(), script.Gone(), script.Pass())
		assert.Equal(t, store.Grant{Status: store.StatusHeld, Fence: 1},
			acquire(t.Context(), s, "a"))
		<-time.After(9 * time.Second)
		assert.Equal(t, store.StatusHeld, renew(t.Context(), s, "a").Status)
		<-time.After(9 * time.Second)
		assert.Equal(t, store.StatusHeld, renew(t.Context(), s, "a").Status,
			"the scripted renewal has moved the TTL")
		assert.Equal(t, store.StatusGone, renew(t.Context(), s, "a").Status)
		assert.Equal(t, store.StatusGone, renew(t.Context(), s, "a").Status, "gone stays gone")
	})
}

func TestTakenIsBelievedForItsTTL(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		acquire(t.Context(), s, "a")
		s.Script(script.Renew, script.Taken(store.Holder{Node: "thief"}, time.Minute))
		assert.Equal(t, store.StatusTaken, renew(t.Context(), s, "a").Status)
		assert.Equal(t, store.StatusTaken, release(t.Context(), s, "a").Status)
		assert.Equal(t, "thief", acquire(t.Context(), s, "b").Holder.Node)
		<-time.After(time.Minute)
		assert.Equal(t, store.StatusHeld, acquire(t.Context(), s, "b").Status)
	})
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name  string
		step  script.Step
		owner string
	}{
		{"hang", script.Hang(), ""},
		{"slow", script.Pass().Slow(time.Minute), ""},
		{"late", script.Pass().Late(time.Minute), "a"},
		{"lost", script.Pass().Lost(), "a"},
		{"mine, lost", script.Held().Lost(), "a"},
	}
	for _, tt := range steps {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, s *script.Store) {
				s.Script(script.Acquire, tt.step)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				d := took(func() {
					assert.Equal(t, store.Grant{Err: context.DeadlineExceeded},
						acquire(ctx, s, "a"))
				})
				assert.Equal(t, time.Second, d)
				assert.Equal(t, tt.owner, s.Owner("n"))

				s.Script(script.Acquire, tt.step)
				d = took(func() {
					assert.Equal(t, context.DeadlineExceeded, acquire(ctx, s, "b").Err)
				})
				assert.Zero(t, d, "a dead context waits for nothing")
			})
		})
	}
}

func TestBrokenTakesEffect(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		s.Script(script.Acquire, script.Pass().Broken(errDown))
		assert.Equal(t, store.Grant{Err: errDown}, acquire(t.Context(), s, "a"))
		assert.Equal(t, "a", s.Owner("n"))
		s.Script(script.Release, script.Each(script.Pass()).Broken(errDown))
		assert.Equal(t, store.Answer{Err: errDown}, release(t.Context(), s, "a"))
		assert.Empty(t, s.Owner("n"))
	})
}

func TestEachAnswersItemByItem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		s.Script(script.Renew, script.Each(script.Held(), script.Gone(), script.Fail(errDown)))
		holds := []store.Hold{
			{Name: "1", Owner: "o", TTL: ttl},
			{Name: "2", Owner: "o"},
			{Name: "3", Owner: "o"},
			{Name: "4", Owner: "o"},
		}
		want := []store.Answer{
			{Status: store.StatusHeld},
			{Status: store.StatusGone},
			{Err: errDown},
			{Status: store.StatusGone},
		}
		assert.Equal(t, want, s.Renew(t.Context(), holds))
	})
}

func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		begin := time.Now()
		claims := []store.Claim{{Name: "n", Owner: "a", TTL: ttl}}
		s.Acquire(t.Context(), claims)
		claims[0].Owner = "changed"
		<-time.After(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		holds := []store.Hold{{Name: "n", Owner: "a", TTL: ttl}}
		s.Renew(ctx, holds)
		holds[0].Name = "changed"

		calls := s.Calls(script.Acquire)
		require.Len(t, calls, 1)
		assert.Equal(t, begin, calls[0].At)
		assert.Zero(t, calls[0].Deadline)
		assert.Equal(t, "a", calls[0].Claims[0].Owner)
		calls = s.Calls(script.Renew)
		require.Len(t, calls, 1)
		assert.Equal(t, begin.Add(time.Second), calls[0].At)
		assert.Equal(t, begin.Add(time.Second+time.Minute), calls[0].Deadline)
		assert.Equal(t, "n", calls[0].Holds[0].Name, "as it was when called")
		assert.Empty(t, s.Calls(script.Release))
	})
}

func TestWakes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		var woken []error
		stop := s.Watch("n", false, func(err error) { woken = append(woken, err) })
		synctest.Wait()
		assert.Equal(t, []error{nil}, woken, "on set-up")
		assert.Equal(t, 1, s.Wake("n", errDown))
		assert.Equal(t, 0, s.Wake("other", nil))
		assert.Equal(t, []error{nil, errDown}, woken)
		acquire(t.Context(), s, "a")
		release(t.Context(), s, "a")
		assert.Equal(t, []error{nil, errDown, nil}, woken, "on release")

		s.Mute(true)
		acquire(t.Context(), s, "a")
		release(t.Context(), s, "a")
		s.Watch("n", false, func(error) { t.Error("woken while muted") })()
		synctest.Wait()
		assert.Len(t, woken, 3)
		assert.Equal(t, 1, s.Watchers("n"))
		stop()
		assert.Equal(t, 0, s.Wake("n", nil))
		assert.Equal(t, 0, s.Watchers("n"))
	})
}
