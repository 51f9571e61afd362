package renewer_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func slots(n int) func(string) int { return func(string) int { return n } }

func tries(names ...string) (all []renewer.Try) {
	for _, name := range names {
		all = append(all, renewer.Try{Name: name})
	}
	return all
}

func leases(all []renewer.Try) (leases []*renewer.Lease) {
	for _, t := range all {
		if t.Lease != nil {
			leases = append(leases, t.Lease)
		}
	}
	return leases
}

// Several names cost one request to take, and one to free.
func TestSeveralAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Pass().Late(time.Second))
		all := tries("b", "a", "c")
		begun := time.Now()
		k.TryEach(t.Context(), all, renewer.Operation("transfer"))
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, s.Calls(script.Acquire), 1)
		for _, one := range all {
			require.NoError(t, one.Err)
			require.Equal(t, one.Name, one.Lease.Name())
			require.Positive(t, one.Lease.Fence())
		}
		waitFor(time.Minute)
		for _, l := range leases(all) {
			require.True(t, l.Valid(), "each has a heartbeat")
			require.NoError(t, l.Context().Err())
		}
		ended := all[0].Lease.Context()
		require.Equal(t, make([]error, 3), k.ReleaseEach(t.Context(), leases(all)))
		require.Len(t, s.Calls(script.Release), 1)
		require.Error(t, ended.Err())
		for _, name := range []string{"a", "b", "c"} {
			require.Empty(t, s.Owner(name))
		}
		require.Equal(t, make([]error, 3), k.AbortEach(t.Context(), leases(all)), "they are over")
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
		for end, each := range map[string]func(context.Context, []*renewer.Lease) []error{
			"release": k.ReleaseEach, "abort": k.AbortEach,
		} {
			a, b := acquire(t, k, "a"), acquire(t, second, "b")
			require.Equal(t, []error{nil, nil}, each(t.Context(), []*renewer.Lease{b, a}), end)
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
				all := tries("a", "b", "c")
				k.TryEach(t.Context(), all)
				require.ErrorIs(t, all[1].Err, answer.want)
				require.Nil(t, all[1].Lease)
				if name != "too old" {
					require.NoError(t, all[0].Err)
					require.NoError(t, all[2].Err)
				}
				for _, err := range k.ReleaseEach(t.Context(), leases(all)) {
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
		bad  renewer.Try
		opts []renewer.Option
		want error
	}{
		"a long name":    {renewer.Try{Name: strings.Repeat("x", 513)}, nil, renewer.ErrName},
		"a closed limit": {renewer.Try{Name: "b", Limit: slots(0)}, nil, renewer.ErrLimitClosed},
		"below 0":        {renewer.Try{Name: "b", Limit: slots(-1)}, nil, renewer.ErrConfig},
		"an option": {
			renewer.Try{Name: "b"},
			[]renewer.Option{renewer.Manual(time.Nanosecond)},
			renewer.ErrConfig,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				all := append(tries("a"), c.bad, renewer.Try{Name: "c"})
				k.TryEach(t.Context(), all, c.opts...)
				for _, one := range all {
					require.ErrorIs(t, one.Err, c.want)
					require.Nil(t, one.Lease)
				}
				require.Empty(t, s.Calls(script.Acquire))
				names, orphans := k.NamesAndOrphans()
				require.Zero(t, names+orphans)
			})
		})
	}
}

// A name that this process is giving back is waited for, with the others in hand, as by
// TryAcquire; what it has is refused at once, and what comes after that is not asked for.
func TestSeveralThatThisProcessHas(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		freed, held := acquire(t, k, "b"), acquire(t, k, "d")
		s.Script(script.Release, script.Pass().Late(time.Second))
		released := background(func() error { return freed.Release(context.Background()) })
		synctest.Wait()
		begun := time.Now()
		all := tries("a", "b", "c")
		k.TryEach(t.Context(), all)
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, leases(all), 3)
		require.NoError(t, <-released)
		k.ReleaseEach(t.Context(), leases(all))

		s.Script(script.Release, script.Pass().Late(time.Second))
		freed = acquire(t, k, "e")
		released = background(func() error { return freed.Release(context.Background()) })
		synctest.Wait()
		begun = time.Now()
		all = tries("c", "d", "e")
		k.TryEach(t.Context(), all)
		require.Zero(t, time.Since(begun))
		require.NoError(t, all[0].Err)
		require.ErrorIs(t, all[1].Err, renewer.ErrBusy)
		require.Equal(t, all[1].Err, all[2].Err)
		require.NoError(t, <-released)
		k.ReleaseEach(t.Context(), append(leases(all), held))
		require.Empty(t, s.Owner("c"))
	})
}

// Of several leases each ends in its own way: handed to a caller who waits, freed, found lost, lost
// long before, or not answered for.
func TestReleaseEach(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		all := tries("handed", "freed", "found lost", "lost", "not answered")
		k.TryEach(t.Context(), all[:3])
		all[3].Lease = acquire(t, k, "lost", renewer.Manual(2*time.Second))
		all[4].Lease = acquire(t, k, "not answered")
		<-all[3].Lease.Context().Done()
		after := background(func() error {
			l, err := k.Acquire(context.Background(), "handed")
			if err != nil {
				return err
			}
			return l.Release(context.Background())
		})
		waitFor(config.Heartbeat) // by then the store has been asked for a turn, if it is
		s.Delete("found lost")
		s.Script(script.Release, script.Each(script.Pass(), script.Pass(), script.Pass(),
			script.Fail(errDown)))
		errs := k.ReleaseEach(t.Context(), leases(all))
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		assert.ErrorIs(t, errs[2], renewer.ErrLost)
		assert.ErrorIs(t, errs[3], renewer.ErrLost)
		assert.ErrorIs(t, errs[4], renewer.ErrUnavailable)
		require.NoError(t, <-after)
		waitFor(config.TTL)
		for _, one := range all {
			require.Empty(t, s.Owner(one.Name))
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
		all := tries("a", "b")
		k.TryEach(t.Context(), all)
		for _, one := range all {
			require.ErrorIs(t, one.Err, renewer.ErrShutdown)
		}
		require.Empty(t, s.Calls(script.Acquire))
	})
}
