package renewer_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func requests(names ...string) (all []renewer.Request) {
	for _, name := range names {
		all = append(all, renewer.Request{Name: name, Operation: "transfer"})
	}
	return all
}

// granted are the leases that there are.
func granted(leases []*renewer.Lease) []*renewer.Lease {
	return slices.DeleteFunc(slices.Clone(leases), func(l *renewer.Lease) bool { return l == nil })
}

// Several names cost one request to take, and one to free.
func TestSeveralAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Pass().Late(time.Second))
		names := []string{"b", "a", "c"}
		begun := time.Now()
		leases, errs := k.AcquireEach(t.Context(), requests(names...))
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, s.Calls(script.Acquire), 1)
		require.Equal(t, make([]error, 3), errs)
		for i, l := range leases {
			require.Equal(t, names[i], l.Name())
			require.Positive(t, l.Fence())
		}
		waitFor(time.Minute)
		for _, l := range leases {
			require.True(t, l.Valid(), "each has a heartbeat")
			require.NoError(t, l.Context().Err())
		}
		ended := leases[0].Context()
		require.Equal(t, make([]error, 3), k.ReleaseEach(t.Context(), leases, false))
		require.Len(t, s.Calls(script.Release), 1)
		require.Error(t, ended.Err())
		for _, name := range names {
			require.Empty(t, s.Owner(name))
		}
		require.Equal(t, make([]error, 3), k.ReleaseEach(t.Context(), leases, true), "they are over")
		require.Equal(t, make([]error, 1), k.ReleaseEach(t.Context(), []*renewer.Lease{nil}, false))
		require.Len(t, s.Calls(script.Release), 1)
	})
}

// A lease of another keeper is its own to free.
func TestLeasesOfTwoKeepersAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		second, err := renewer.New(s, config)
		require.NoError(t, err)
		defer func() { require.NoError(t, second.Shutdown(t.Context())) }()
		for _, abort := range []bool{false, true} {
			both := []*renewer.Lease{acquire(t, second, "b"), acquire(t, k, "a")}
			require.Equal(t, []error{nil, nil}, k.ReleaseEach(t.Context(), both, abort))
			require.Empty(t, s.Owner("a"))
			require.Empty(t, s.Owner("b"))
		}
	})
}

// Each name has its own answer, and none is left behind that was not granted.
func TestSomeOfSeveralAreNotToBeHad(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		step script.Step
		want error
	}{
		"another's":     {script.Taken(other, time.Hour), renewer.ErrBusy},
		"not known":     {script.Fail(errDown), renewer.ErrUnavailable},
		"not answered":  {script.Pass().Broken(errDown), renewer.ErrUnavailable},
		"too old":       {script.Pass().Late(time.Hour), renewer.ErrUnavailable},
		"not in memory": {script.Fail(renewer.ErrConfig), renewer.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				step := script.Each(script.Pass(), answer.step, script.Pass())
				if name == "too old" {
					step = answer.step
				}
				s.Script(script.Acquire, step)
				leases, errs := k.AcquireEach(t.Context(), requests("a", "b", "c"))
				require.ErrorIs(t, errs[1], answer.want)
				require.Nil(t, leases[1])
				if name != "too old" {
					require.NoError(t, errs[0])
					require.NoError(t, errs[2])
				}
				for _, err := range k.ReleaseEach(t.Context(), granted(leases), false) {
					require.NoError(t, err)
				}
				waitFor(config.TTL)
				s.Delete("b") // the other's
				for _, name := range []string{"a", "b", "c"} {
					require.Empty(t, s.Owner(name))
				}
			})
		})
	}
}

// What can never be had is refused before anything is asked.
func TestSeveralOfWhichOneCantBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  renewer.Request
		want error
	}{
		"a long name":    {renewer.Request{Name: strings.Repeat("x", 513)}, renewer.ErrName},
		"a closed limit": {renewer.Request{Name: "b", Limit: slots(0)}, renewer.ErrLimitClosed},
		"below 0":        {renewer.Request{Name: "b", Limit: slots(-1)}, renewer.ErrConfig},
		"Manual":         {renewer.Request{Name: "b", Manual: time.Nanosecond}, renewer.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				all := requests("a", "", "c")
				all[1] = c.bad
				leases, errs := k.AcquireEach(t.Context(), all)
				require.Empty(t, granted(leases))
				for _, err := range errs {
					require.ErrorIs(t, err, c.want)
				}
				require.Empty(t, s.Calls(script.Acquire))
				names, orphans := k.NamesAndOrphans()
				require.Zero(t, names+orphans)
			})
		})
	}
}

// A name that this process is giving back is waited for, with the others in
// hand, as with Request.Try; what it has is refused at once, and what comes
// after that is not asked for.
func TestSeveralThatThisProcessHas(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		freed, held := acquire(t, k, "b"), acquire(t, k, "d")
		s.Script(script.Release, script.Pass().Late(time.Second))
		released := background(func() error { return freed.Release(context.Background()) })
		synctest.Wait()
		begun := time.Now()
		leases, _ := k.AcquireEach(t.Context(), requests("a", "b", "c"))
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, granted(leases), 3)
		require.NoError(t, <-released)
		k.ReleaseEach(t.Context(), leases, false)

		s.Script(script.Release, script.Pass().Late(time.Second))
		freed = acquire(t, k, "e")
		released = background(func() error { return freed.Release(context.Background()) })
		synctest.Wait()
		begun = time.Now()
		leases, errs := k.AcquireEach(t.Context(), requests("c", "d", "e"))
		require.Zero(t, time.Since(begun))
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], renewer.ErrBusy)
		require.Equal(t, errs[1], errs[2])
		require.NoError(t, <-released)
		k.ReleaseEach(t.Context(), append(granted(leases), held), false)
		require.Empty(t, s.Owner("c"))
	})
}

// Of several leases each ends in its own way: handed to a caller who waits,
// freed, found lost, lost long before, or not answered for.
func TestReleaseEach(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		leases, _ := k.AcquireEach(t.Context(), requests("handed", "freed", "found lost"))
		lost := acquire(t, k, "lost", renewer.Request{Manual: 2 * time.Second})
		leases = append(leases, lost, acquire(t, k, "not answered"))
		<-lost.Context().Done()
		after := waits(context.Background(), k, renewer.Request{Name: "handed"})
		waitFor(config.Heartbeat) // by then the store has been asked for a turn, if it is
		s.Delete("found lost")
		s.Script(script.Release, script.Each(script.Pass(), script.Pass(), script.Pass(),
			script.Fail(errDown)))
		errs := k.ReleaseEach(t.Context(), leases, false)
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		assert.ErrorIs(t, errs[2], renewer.ErrLost)
		assert.ErrorIs(t, errs[3], renewer.ErrLost)
		assert.ErrorIs(t, errs[4], renewer.ErrUnavailable)
		require.NoError(t, <-after)
		waitFor(config.TTL)
		for _, l := range leases {
			require.Empty(t, s.Owner(l.Name()))
		}
		names, orphans := k.NamesAndOrphans()
		require.Zero(t, names+orphans)
	})
}

// After Shutdown none is asked for.
func TestSeveralAfterShutdown(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		require.NoError(t, k.Shutdown(within(t, time.Minute)))
		_, errs := k.AcquireEach(t.Context(), requests("a", "b"))
		for _, err := range errs {
			require.ErrorIs(t, err, renewer.ErrShutdown)
		}
		require.Empty(t, s.Calls(script.Acquire))
	})
}

// endsBadly panics when it hears of the end of the second acquire.
type endsBadly struct {
	renewer.NopObserver

	heard int
}

func (o *endsBadly) AcquireEnd(ctx context.Context, _ renewer.AcquireEnd) context.Context {
	o.heard++
	if o.heard == 2 {
		panic("observer")
	}
	return ctx
}

// What was granted before a panic is nobody's, and is given back.
func TestSeveralAndAPanic(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.Observer = new(endsBadly)
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		require.PanicsWithValue(t, "observer", func() {
			_, _ = k.AcquireEach(t.Context(), requests("a", "b", "c"))
		})
		waitFor(time.Second)
		for _, name := range []string{"a", "b", "c"} {
			require.Empty(t, s.Owner(name))
		}
		names, orphans := k.NamesAndOrphans()
		require.Zero(t, names+orphans)
		require.Empty(t, slices.Collect(k.Holdings()))
	})
}
