package quorum_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// uncomparable is a store that == panics on.
type uncomparable struct {
	engine.Whole
	_ []int
}

func stores(n int) (all []renewer.Store) {
	for range n {
		all = append(all, memory.New())
	}
	return all
}

func TestTheDefaultLog(t *testing.T) {
	t.Parallel()
	require.Same(t, slog.Default(), quorum.LogOf())
	require.Same(t, renewer.Silent, quorum.LogOf(quorum.Log(renewer.Silent)))
}

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	twice := memory.New()
	var none *memory.Store
	opts := func(all ...quorum.Option) []quorum.Option { return all }
	for name, c := range map[string]struct {
		nodes []renewer.Store
		opts  []quorum.Option
		want  string // separated by |
	}{
		"no nodes":      {nil, nil, "nodes: there are none"},
		"even":          {stores(4), nil, "4 is even|give 3 or 5"},
		"nil":           {append(stores(2), nil), nil, "number 3 is nil"},
		"a nil pointer": {[]renewer.Store{none}, nil, "number 1 is nil"},
		"twice":         {append(stores(1), twice, twice), nil, "numbers 2 and 3 are the same store"},
		"a nil logger":  {stores(1), opts(quorum.Log(nil)), "Log: is nil"},
		"too few names": {stores(3), opts(quorum.Names("a", "b")), "Names: there are 2 for 3 nodes"},
		"no names":      {stores(3), opts(quorum.Names()), "Names: there are 0 for 3 nodes"},
		"an empty name": {stores(3), opts(quorum.Names("a", "", "c")), "Names: number 2 is empty"},
		"a name twice": {
			stores(3), opts(quorum.Names("a", "b", "a")), `numbers 1 and 3 are both "a"`,
		},
		"all that is faulty": {
			stores(2), opts(quorum.Names("a"), quorum.Log(nil), nil), "is even|Names|Log",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := quorum.New(c.nodes, c.opts...)
			assert.Nil(t, s)
			require.ErrorIs(t, err, renewer.ErrConfig)
			for want := range strings.SplitSeq(c.want, "|") {
				assert.ErrorContains(t, err, want)
			}
			assert.True(t, strings.HasPrefix(err.Error(), "quorum: "), err)
		})
	}
}

func TestNewTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes []renewer.Store
		opts  []quorum.Option
	}{
		"one":       {stores(1), nil},
		"seven":     {stores(7), nil},
		"seventeen": {stores(17), nil},
		"stores that == panics on": {[]renewer.Store{
			engine.Of(uncomparable{Whole: engine.In(memory.New())}),
			engine.Of(uncomparable{Whole: engine.In(memory.New())}),
			memory.New(),
		}, nil},
		"every option": {
			stores(3),
			[]quorum.Option{quorum.Names("a", "b", "c"), quorum.Log(slog.Default())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := quorum.New(c.nodes, c.opts...)
			require.NoError(t, err)
			defer s.Close()
			mustAcquire(t, s.Engine(), "a")
			require.Equal(t, store.StatusTaken, acquire(t.Context(), s.Engine(), "b").Status)
		})
	}
}
