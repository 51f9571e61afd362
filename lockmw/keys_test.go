package lockmw_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// manyNames are so many different names, in order.
func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("account:%06d", i)
	}
	return names
}

// A list of names often comes from a request: its sender does not choose how many locks it takes.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	most, more := manyNames(64), manyNames(64+1)
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, name := range []string{
			lockmw.Keys(more...),
			lockmw.Keys(lockmw.Keys(most...), "another"),
			lockmw.Keys(lockmw.Keys(more...), "another"),
			lockmw.Key("prefix", lockmw.Keys(more...)),
			lockmw.Key("prefix", lockmw.Keys(most...), lockmw.Keys("a", "b")),
			lockmw.Key("prefix", lockmw.Keys(most...), lockmw.Keys(most...), lockmw.Keys(most...),
				lockmw.Keys(most...), lockmw.Keys(most...), lockmw.Keys(most...)),
		} {
			require.Nil(t, lockmw.Split(name))
			for _, opt := range []lockmw.Option{
				lockmw.Refuse(), lockmw.Skip(),
				lockmw.Wait(time.Second),
			} {
				_, err := lockmw.Do(t.Context(), k, name, answer, opt)
				require.ErrorIs(t, err, renewer.ErrName)
				require.Equal(t, lockmw.RefusalName, lockmw.RefusalOf(err))
				require.NotContains(t, err.Error(), "account:")
				require.NotContains(t, err.Error(), "\x00")
			}
			require.ErrorIs(t,
				lockmw.RunWhileHeld(t.Context(), k, name, func(context.Context) error {
					return nil
				}), renewer.ErrName)
			require.False(t, lockmw.Held(t.Context(), name))
			require.Zero(t, lockmw.FenceOf(t.Context(), name))
		}
		_, err := lockmw.Do(t.Context(), k, lockmw.Keys(more...), answer)
		require.ErrorContains(t, err,
			"65 names were given for one operation, of which at most 64 may be different")
		require.Empty(t, s.Calls(script.Acquire))
	})
	for _, name := range []string{
		lockmw.Keys(most...),
		lockmw.Keys(append(most, most...)...),
		lockmw.Key("prefix", lockmw.Keys(most[:8]...), "part", lockmw.Keys(most[:8]...)),
	} {
		require.GreaterOrEqual(t, len(lockmw.Split(name)), 64)
	}
	require.Empty(t, lockmw.Keys(append(slices.Clip(most), "")...))
}

// What a long list costs does not grow with it, whether it has too many names or a few over and
// over.
//
//nolint:paralleltest // it counts allocations
func TestALongListOfNamesTakesLittleMemory(t *testing.T) {
	for what, names := range map[string][]string{
		"different": manyNames(150_000),
		"the same":  slices.Repeat(manyNames(64), 2500),
	} {
		require.Less(t, testing.AllocsPerRun(1, func() {
			lockmw.Keys(names...)
		}), float64(100), what)
	}
}

// Keys is a set of names: the order, the number of times that each is given, and how they are
// nested do not matter, and it is refused if and only if it has too many.
func FuzzKeysAreBounded(f *testing.F) {
	f.Add("a,b,c,b,a", 3)
	f.Add(strings.Join(manyNames(64+1), ","), 1)
	f.Add(strings.Repeat("x,y,z,", 50)+"!,1:a,\x00", 40)
	f.Fuzz(func(t *testing.T, list string, at int) {
		names := strings.Split(list, ",")
		at = max(0, min(at, len(names)))
		set := lockmw.Keys(names...)
		refused := lockmw.TooMany(set)
		if slices.Contains(names, "") {
			require.True(t, set == "" || refused != nil,
				"too many may be found before the empty one")
			return
		}
		if at > 0 {
			nested := lockmw.Keys(append([]string{lockmw.Keys(names[:at]...)}, names[at:]...)...)
			require.Equal(t, lockmw.Split(set), lockmw.Split(nested))
			require.Equal(t, refused == nil, lockmw.TooMany(nested) == nil)
		}
		switch want := slices.Compact(slices.Sorted(slices.Values(names))); {
		case len(want) > 64:
			require.ErrorIs(t, refused, renewer.ErrName)
			require.Equal(t, set, lockmw.Key("prefix", set))
			_ = lockmw.TooMany(set[:min(len(set), at)])
			require.Nil(t, lockmw.Split(set[:min(len(set), at)]))
		case len(want) == 1:
			require.Equal(t, want[0], set)
		default:
			require.NoError(t, refused)
			require.Equal(t, want, lockmw.Split(set))
			require.Len(t, lockmw.Split(lockmw.Key("prefix", set)), len(want))
		}
	})
}
