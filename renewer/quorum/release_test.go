package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestReleasedByAMajority(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		synctest.Wait()
		nodes[1].Script(script.Release, script.Pass().Slow(700*time.Millisecond))
		assert.Zero(t, took(func() {
			assert.Equal(t, store.Answer{Status: store.StatusHeld},
				release(t.Context(), s, "a"))
		}))
		assert.Equal(t, "-a-", owners("n", nodes))
		waitFor(time.Second)
		requireFree(t, "n", nodes)
		assert.Equal(t, store.Answer{Status: store.StatusGone}, release(t.Context(), s, "a"))
	})
}

func TestReleaseWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		synctest.Wait()
		nodes[0].Script(script.Release, script.Hang())
		nodes[1].Script(script.Release, script.Fail(errDown))
		var a store.Answer
		assert.Equal(t, 900*time.Millisecond, took(func() {
			a = release(limited(t, 900*time.Millisecond), s, "a")
		}))
		assert.Equal(t, store.StatusUnknown, a.Status)
		require.ErrorIs(t, a.Err, errDown)
		assert.Equal(t, "aa-", owners("n", nodes))
		waitFor(1100 * time.Millisecond)
		requireFree(t, "n", nodes) // by the second try, a second later
		assert.Zero(t, quorum.Known(s))
	})
}

// What is lost on a majority is said to be lost, and the rest is freed.
func TestReleaseOfALostLease(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		synctest.Wait()
		nodes[0].Delete("n")
		nodes[1].Overwrite("n", store.Holder{Node: "x"}, time.Minute)
		assert.Equal(t, store.Answer{
			Status: store.StatusTaken, Holder: &store.Holder{Node: "x"},
		}, release(t.Context(), s, "a"))
		synctest.Wait()
		assert.Equal(t, "-s-", owners("n", nodes))
	})
}

// An acquire that is answered after its lease was released leaves nothing.
func TestReleaseOvertakesAnAcquire(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"slow": script.Pass().Slow(time.Second), "no reply": script.Pass().Slow(time.Second).Lost(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
				nodes[2].SetSettle(3 * time.Second)
				nodes[2].Script(script.Acquire, step)
				mustAcquire(t, s, "a")
				assert.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
				waitFor(time.Second)
				waitFor(2 * time.Second)
				synctest.Wait()
				requireFree(t, "n", nodes)
				waitFor(time.Minute)
				assert.Zero(t, quorum.Known(s))
				assert.Zero(t, quorum.Planned(s))
			})
		})
	}
}

// A grant that is told while its lease is being released is freed behind that
// release, not beside it: the release would hear that the lease was not ours
// any more, and call it lost.
func TestALateGrantIsNotFreedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, node := range nodes[1:] {
			node.Script(script.Release, script.Pass().Slow(30*time.Millisecond))
		}
		nodes[1].Script(script.Acquire, script.Pass().Late(10*time.Millisecond))
		nodes[2].Script(script.Acquire, script.Pass().Late(50*time.Millisecond))
		mustAcquire(t, s, "a") // by the first two, in 10 ms
		waitFor(30 * time.Millisecond)
		assert.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
		waitFor(time.Second)
		calls := nodes[2].Calls(script.Release)
		require.Len(t, calls, 2, "once more, in case the grant came after it")
		assert.Equal(t, 30*time.Millisecond, calls[1].At.Sub(calls[0].At),
			"when the first was over")
		requireFree(t, "n", nodes)
		assert.Zero(t, quorum.Known(s))
		assert.Zero(t, quorum.Planned(s))
	})
}

// An acquire is answered after its lease was released, while the
// release is not over on another node.
func TestReleaseOvertakesAnAcquireAndHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[2].Script(script.Acquire, script.Pass().Slow(900*time.Millisecond))
		mustAcquire(t, s, "a")
		nodes[1].Script(script.Release, script.Hang())
		require.Equal(t, store.StatusUnknown,
			release(limited(t, 500*time.Millisecond), s, "a").Status)
		waitFor(600 * time.Millisecond)
		assert.Empty(t, nodes[2].Owner("n"))
		assert.Equal(t, "a", owners("n", nodes[1:2]), "it is asked again a second later")
		waitFor(time.Second)
		requireFree(t, "n", nodes)
	})
}

// What was planned for a lease that is over does not free what the same owner
// has taken since.
func TestNothingIsFreedForAFormerLease(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Script(script.Acquire, script.Pass().Slow(500*time.Millisecond))
		mustAcquire(t, s, "a")
		synctest.Wait()
		nodes[0].Script(script.Release, script.Fail(errDown))
		require.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
		waitFor(600 * time.Millisecond)
		requireFree(t, "n", nodes)
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		assert.Equal(t, "aaa", owners("n", nodes))
	})
}

// A name that is to be kept for a while is not freed by a second try, whatever
// was not answered.
func TestKeptAfterRelease(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][2]script.Step{
		"all well":             {script.Pass(), script.Pass()},
		"release not answered": {script.Pass(), script.Pass().Broken(errDown)},
		"the same, late": {
			script.Pass(),
			script.Pass().Late(100 * time.Millisecond).Broken(errDown),
		},
		"acquire not answered": {script.Pass().Broken(errDown), script.Pass()},
		"neither":              {script.Pass().Broken(errDown), script.Pass().Broken(errDown)},
		"neither, one of them late": {
			script.Pass().Broken(errDown),
			script.Pass().Late(100 * time.Millisecond).Broken(errDown),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
				nodes[0].SetSettle(2 * time.Second)
				nodes[0].Script(script.Acquire, steps[0])
				mustAcquire(t, s, "a")
				synctest.Wait()
				nodes[0].Script(script.Release, steps[1])
				h := hold("n", "a")
				h.Keep = 5 * time.Second
				assert.Equal(t, store.StatusHeld,
					s.Release(t.Context(), []store.Hold{h})[0].Status)
				waitFor(5*time.Second - 1)
				assert.Equal(t, "aaa", owners("n", nodes))
				assert.Equal(t, store.StatusTaken, acquire(t.Context(), s, "b").Status)
				waitFor(1)
				mustAcquire(t, s, "b")
			})
		})
	}
}

// Who releases takes over what was planned behind its failed attempt.
func TestReleaseTakesOverTheCleaningUp(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, node := range nodes[:2] {
			node.SetSettle(4 * time.Second)
			node.Script(script.Acquire, script.Fail(errDown))
		}
		require.Equal(t, store.StatusUnknown, acquire(limited(t, time.Second), s, "a").Status)
		release(t.Context(), s, "a")
		waitFor(time.Minute)
		var freed int
		for _, c := range nodes[0].Calls(script.Release) {
			freed += len(c.Holds)
		}
		assert.Equal(t, 2, freed, "at once, and once more")
	})
}

// After Close nothing more is done in the background.
func TestClose(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, node := range nodes[:2] {
			node.SetSettle(30 * time.Second)
			node.Script(script.Acquire, script.Fail(errDown))
		}
		require.Equal(t, store.StatusUnknown, acquire(limited(t, time.Second), s, "a").Status)
		synctest.Wait()
		require.Equal(t, 2, quorum.Planned(s))
		s.Close()
		s.Close()
		synctest.Wait()
		assert.Zero(t, quorum.Planned(s))
		assert.Zero(t, quorum.Known(s))
		waitFor(time.Minute)
		assert.Empty(t, nodes[0].Calls(script.Release))
		mustAcquire(t, s, "b")
		synctest.Wait()
		assert.Zero(t, quorum.Late(s, 2))
	})
}

// Close does not wait for a node that hangs, and ends the calls that it keeps.
func TestCloseEndsLateCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Default(script.Acquire, script.Hang())
		mustAcquire(t, s, "a")
		synctest.Wait()
		require.EqualValues(t, 1, quorum.Late(s, 0))
		assert.Zero(t, took(s.Close))
		synctest.Wait()
		require.Zero(t, quorum.Late(s, 0))
	})
}
