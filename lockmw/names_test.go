package lockmw_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
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

// A list of names often comes from a request: its sender does not choose how
// many locks it takes.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	most, more := manyNames(64), manyNames(64+1)
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, name := range []lockmw.Set{
			lockmw.All(more...),
			lockmw.All(most...).And(lockmw.All("another")),
			lockmw.All(more...).And(lockmw.All("another")),
			lockmw.All(lockmw.All(most...), lockmw.Limit("another", 2)),
		} {
			for _, opt := range []lockmw.Option{
				lockmw.Refuse(), lockmw.Skip(), lockmw.Wait(time.Second),
			} {
				_, err := lockmw.Do(t.Context(), k, name, answer, opt)
				require.ErrorIs(t, err, renewer.ErrName)
				require.ErrorContains(t, err, "more than 64 names were given for one operation")
				require.Equal(t, adapter.RefusalName, adapter.RefusalOf(err))
				require.NotContains(t, err.Error(), "account:")
			}
			require.ErrorIs(t, lockmw.Lead(t.Context(), k, name, nothing), renewer.ErrName)
			require.False(t, lockmw.Held(t.Context(), name))
			require.Zero(t, lockmw.FenceOf(t.Context(), name))
		}
		require.Empty(t, s.Calls(script.Acquire))
	})
	for _, name := range []lockmw.Set{lockmw.All(most...), lockmw.All(append(most, most...)...)} {
		require.Len(t, adapter.NamesOf(name), 64)
	}
	require.ErrorIs(t, lockmw.Err(lockmw.All(append(slices.Clip(most), "")...)), renewer.ErrName)
}

// What a long list costs does not grow with it, whether it has too many names
// or a few over and over.
//
//nolint:paralleltest // it counts allocations
func TestALongListOfNamesTakesLittleMemory(t *testing.T) {
	for what, names := range map[string][]string{
		"different": manyNames(150_000),
		"the same":  slices.Repeat(manyNames(64), 2500),
	} {
		require.Less(t, testing.AllocsPerRun(1, func() {
			lockmw.All(names...)
		}), float64(100), what)
	}
}

// A set is one of names: the order, the number of times that each is given, and
// how they are joined do not matter, and it is refused if and only if it has
// too many, or one that is none.
func FuzzNamesAreBounded(f *testing.F) {
	f.Add("a,b,c,b,a", 3)
	f.Add(strings.Join(manyNames(64+1), ","), 1)
	f.Add(strings.Repeat("x,y,z,", 50)+"!,1:a", 40)
	f.Fuzz(func(t *testing.T, list string, at int) {
		names := strings.Split(list, ",")
		at = max(0, min(at, len(names)))
		set := lockmw.All(names...)
		if at > 0 && at < len(names) {
			joined := lockmw.All(names[:at]...).And(lockmw.All(names[at:]...))
			require.Equal(t, adapter.NamesOf(set), adapter.NamesOf(joined))
			require.Equal(t, lockmw.Err(set) == nil, lockmw.Err(joined) == nil)
		}
		bad := slices.ContainsFunc(names, func(name string) bool {
			return renewer.CheckName(name) != nil
		})
		switch want := slices.Compact(slices.Sorted(slices.Values(names))); {
		case len(names) == 1: // checked where it is asked for
		case bad, len(want) > 64:
			require.ErrorIs(t, lockmw.Err(set), renewer.ErrName)
		default:
			require.NoError(t, lockmw.Err(set))
			require.Equal(t, want, adapter.NamesOf(set))
		}
	})
}
