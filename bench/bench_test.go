package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// TestMain plays the child when the program under test starts itself.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// Everything is measured in a short run too, only smaller.
func TestShortRun(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"redis-server", "valgrind"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv(redistest.RequireEnv) != "1" {
			t.Skip(err)
		}
	}
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"-short"}, &out, &errs), "%s\n%s", &out, &errs)
	for _, who := range everyone {
		assert.Contains(t, out.String(), "| "+who+" ")
	}
	missing := slices.DeleteFunc(judgements(), func(j judgement) bool {
		return strings.Contains(out.String(), "| "+j.what+" ")
	})
	assert.Len(t, missing, 8, "those of sizes that a short run does not have")
	for _, want := range []string{
		callersTable, tasksTable, holdTable(200), waitTable, messageLost, deadInFront, never + "64",
		severalAsk + "64", "÷ ZSET by hand", handedTable, killedTable, hotTable, crowdedTable,
		breakTable,
	} {
		assert.Contains(t, out.String(), want)
	}
	if os.Getenv("CI") != "" { // elsewhere there may be another Redis
		assert.NotContains(t, out.String(), "not judged")
	}
}

func TestCoresAreKeptAwake(t *testing.T) {
	t.Parallel()
	stop, err := keepAwake(t.Context())
	if err != nil {
		require.ErrorContains(t, err, "quota")
		return
	}
	stop()
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-run", "("}, {"-leases", "0"}, {"-nonsense"}, {"leases"},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, &out, &errs), args)
		assert.NotEmpty(t, errs.String(), args)
		assert.Empty(t, out.String(), args)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	f := new(figures)
	for _, v := range []float64{9, 1, 5.25} {
		f.add("Speed", lockbeat, "p50", v)
	}
	f.add("Speed", locker, "p99", 1234.5)
	f.failed("Speed", redislock, errors.New("broken"))
	assert.InDelta(t, 5.25, f.at("Speed", lockbeat, "p50"), 0)
	assert.True(t, math.IsNaN(f.at("Speed", redislock, "p50")))
	assert.Equal(t, `
### Speed

|             | p50  | p99  |
|-------------|------|------|
| Lockbeat    | 5.25 | -    |
| rueidislock | -    | 1234 |

Speed: bsm/redislock failed once: broken
`, f.tables())
	var out bytes.Buffer
	require.NoError(t, f.encode(&out))
	var all []figure
	require.NoError(t, json.Unmarshal(out.Bytes(), &all))
	assert.Equal(t, []float64{9, 1, 5.25}, all[0].Values)
	assert.Equal(t, place{"Speed", locker, "p99"}, all[1].place)
}

func TestBestOfOthers(t *testing.T) {
	t.Parallel()
	f := new(figures)
	j := judgements()[0]
	f.add(j.table, locker, j.column, 3)
	f.add(j.table, redsyncs, j.column, 2)
	assert.InDelta(t, 2, f.best(j, locker, redsyncs, redislock), 0, "the last one has no figure")
	j.better = more
	assert.InDelta(t, 3, f.best(j, redislock, locker, redsyncs), 0)
}

func TestJain(t *testing.T) {
	t.Parallel()
	assert.InDelta(t, 1, jain([]int{7, 7, 7, 7}), 1e-9)
	assert.InDelta(t, .25, jain([]int{0, 9, 0, 0}), 1e-9)
	assert.Zero(t, jain([]int{0, 0}))
}

func TestRunsThatMustNotBe(t *testing.T) {
	t.Parallel()
	three := []ran{{"1", "a", 0, 10, 20}, {"2", "b", 0, 10, 20}, {"3", "a", 1, 20, 30}}
	require.NoError(t, check(three, 1, 2))
	require.ErrorIs(t, check(three, 1, 1), errOverlap)
	two := []ran{{"3", "a", 1, 19, 30}, {"1", "a", 0, 10, 20}}
	require.ErrorIs(t, check(two, 1, 2), errOverlap)
	require.NoError(t, check(two, 2, 2))
	require.EqualError(t, check([]ran{{"1", "a", 0, 10, 20}, {"1", "a", 0, 30, 40}}, 1, 1),
		"a task ran twice")
}
