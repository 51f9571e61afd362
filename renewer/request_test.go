package renewer_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// What no call can have is refused before anything is asked, at the call and
// when a program starts.
func TestRequestsThatCantBe(t *testing.T) {
	t.Parallel()
	const least = 3 * time.Second // a heartbeat
	newest := renewer.NewestWaits
	for _, c := range []struct {
		r     renewer.Request
		knows bool // the store knows which call is the newest
		text  string
	}{
		{r: renewer.Request{MaxWait: -1}, text: "MaxWait is -1ns"},
		{r: renewer.Request{MaxWaiters: -1}, text: "MaxWaiters is -1"},
		{r: renewer.Request{MaxHold: -1}, text: "MaxHold is -1ns"},
		{r: renewer.Request{
			MaxHold: 1,
		}, text: "MaxHold is 1ns, which is less than one Heartbeat (3s)"},
		{r: renewer.Request{MaxHold: least - 1}, text: "MaxHold is 2.999999999s"},
		{r: renewer.Request{Manual: -1}, text: "-1ns is too short a time"},
		{r: renewer.Request{Manual: time.Millisecond - 1}, text: "too short a time"},
		{r: renewer.Request{Limit: slots(-1)}, text: "limit of -1: give 0 to close it"},
		{r: renewer.Request{Newest: newest}, text: "does not know which call is the newest"},
		{r: renewer.Request{Rank: 1}, text: "does not know which call is the newest"},
		{r: renewer.Request{Rank: -1}, knows: true, text: "rank of -1"},
		{r: renewer.Request{Newest: 3}, knows: true, text: "Newest is 3"},
		{r: renewer.Request{Newest: newest, Limit: slots(2)}, knows: true, text: "not for limits"},
		{r: renewer.Request{Newest: newest, Try: true}, knows: true, text: "leave Try out"},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				if c.knows {
					own, err := renewer.New(memory.New(), config)
					require.NoError(t, err)
					defer func() { require.NoError(t, own.Shutdown(t.Context())) }()
					k = own
				}
				refused(t, k.Check(c.r), c.text)
				c.r.Name = "a"
				refused(t, k.Check(c.r), c.text)
				_, err := k.Acquire(t.Context(), c.r)
				refused(t, err, c.text)
				_, errs := k.AcquireEach(t.Context(), []renewer.Request{c.r})
				refused(t, errs[0], c.text)
				require.Empty(t, s.Calls(script.Acquire))
				names, orphans := k.NamesAndOrphans()
				require.Zero(t, names+orphans)
			})
		})
	}
}

func refused(t *testing.T, err error, text string) {
	t.Helper()
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, text)
}

// What some call can have passes when a program starts; of a name it says when
// it can't be one.
func TestCheckPasses(t *testing.T) {
	t.Parallel()
	k, err := renewer.New(memory.New(), config)
	require.NoError(t, err)
	for _, r := range []renewer.Request{
		{},
		{Name: "a"},
		{MaxHold: 3 * time.Second},
		{MaxHold: math.MaxInt64},
		{Limit: slots(0)},
		{Manual: time.Minute, MaxHold: 3 * time.Second},
		{MaxWait: math.MaxInt64},
		{MaxWaiters: 1},
		{Newest: renewer.NewestReplaces, Rank: 7},
		{Rank: 7, Try: true},
	} {
		assert.NoError(t, k.Check(r), "%+v", r)
	}
	long := renewer.Request{Name: strings.Repeat("x", store.MaxName+1)}
	assert.ErrorIs(t, k.Check(long), renewer.ErrName)
	require.NoError(t, k.Shutdown(t.Context()))
}

// A call names its operation by a string, and pays no allocation for that, as
// operations are few. One that has an operation of its own for each call pays,
// and the others with it do not.
//
//nolint:paralleltest // allocations are counted
func TestOperationsCostNothing(t *testing.T) {
	k, err := renewer.New(memory.New(), config)
	require.NoError(t, err)
	cycle := func(operation string) {
		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Operation: operation})
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
	}
	cost := func(operation string) float64 {
		return testing.AllocsPerRun(100, func() { cycle(operation) })
	}
	plain := cost("")
	assert.LessOrEqual(t, cost("transfer"), plain)
	for i := range 2 * renewer.MostLabels {
		cycle(strconv.Itoa(i))
	}
	assert.LessOrEqual(t, cost("transfer"), plain)
	assert.LessOrEqual(t, cost("beyond"), plain+1)
	require.NoError(t, k.Shutdown(t.Context()))
}
