package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// TestMain plays the child when the program under test starts itself.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(childMain(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// Everything is measured and judged in a short run too, only smaller and without a verdict.
func TestShortRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil &&
		os.Getenv(redistest.RequireEnv) != "1" {
		t.Skip(redistest.ErrMissing)
	}
	var out, errs bytes.Buffer
	profiles := t.TempDir()
	require.Equal(t, 0, run(t.Context(), []string{"-short", "-profile", profiles}, &out, &errs),
		"%s\n%s", out.String(), errs.String())
	for _, want := range []string{
		"| 2000 leases, not got or lost", "| 2000 leases, goroutines of ours",
		"| 2000 leases, peak RSS", "| 2000 leases, client CPU of the hold",
		"| 2000 leases, renewal scripts above 1 ms", "| by hand (", "| our scripts by hand (",
		"| acquire + release, goroutines: 1, ReleaseInBackground, p50 ÷ the best floor",
		"| acquire + release, goroutines: 1, 2ms of network delay each way, p50 ÷ the best floor",
		"| acquire + release, goroutines: 64, cycles/s ÷ our scripts by hand",
		"| cancel of a lone caller while the server hangs, p99",
		"| lockmw.Do above the lease, time",
		"| lockmw.Do above the lease, allocations", "| HTTP, violations of exclusion",
		"| HTTP, no lock, violations of exclusion",
		"| gRPC, lease keys left", "| HTTP, p50 above two round trips",
		"| gRPC, p50 above two round trips", "| HTTP, p50 above our scripts by hand",
		"| gRPC, p50 above our scripts by hand", "| load, goroutines of ours in the end",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.Contains(t, out.String(), "| 0 (rueidislock: 0) ", "nothing is lost in two seconds")
	assert.Contains(t, out.String(), "(rueidislock: 2000)", "a goroutine a lock")
	for _, row := range []string{
		"violations of exclusion", "refused or failed",
		"lease keys left",
	} {
		assert.Regexp(t, `\| HTTP, `+row+` +\| 0 +\|`, out.String())
		assert.Regexp(t, `\| gRPC, `+row+` +\| 0 +\|`, out.String())
	}
	files, err := os.ReadDir(profiles)
	require.NoError(t, err)
	assert.Len(t, files, 28, "two for the leases of each contestant, for the cycles of each in "+
		"each "+
		"way to connect, and for the load by each protocol")
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-rounds", "0"}, {"-run", "("}, {"-nonsense"}, {"leases"}} {
		var out, errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, &out, &errs), args)
		assert.NotEmpty(t, errs.String(), args)
		assert.Empty(t, out.String(), args)
	}
}

func TestMissedTargetFailsTheRun(t *testing.T) {
	t.Parallel()
	targets := []target{{"speed", "1", "≥ 2", false}, {"size", "1", "≤ 2", true}}
	var out bytes.Buffer
	assert.True(t, writeTargets(&out, targets, false))
	assert.Contains(t, out.String(), "| speed | 1        | ≥ 2     | MISSED |")
	assert.Contains(t, out.String(), "| size  | 1        | ≤ 2     | ok     |")
	out.Reset()
	assert.False(t, writeTargets(&out, targets, true))
	assert.NotContains(t, out.String(), "MISSED")
}

func TestHistogramIsWithinASixteenth(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(random.Int64N(1 << (1 + random.Int64N(40))))
		all = append(all, d)
		h.record(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, .5, .9, .99, .999} {
		exact := all[int(q*float64(len(all)))]
		assert.LessOrEqual(t, h.quantile(q), exact)
		assert.GreaterOrEqual(t, h.quantile(q), exact-exact/16)
	}
	var twice histogram
	twice.merge(&h)
	twice.merge(&h)
	assert.Equal(t, 2*h.total, twice.total)
	assert.Equal(t, h.quantile(.5), twice.quantile(.5))
	assert.Zero(t, new(histogram).quantile(.5))
	assert.Equal(t, time.Duration(1<<62), func() time.Duration {
		h := new(histogram)
		h.record(1 << 62)
		return h.quantile(0)
	}())
}

func TestMedian(t *testing.T) {
	t.Parallel()
	assert.Zero(t, median(nil))
	values := []float64{9, 1, 5}
	assert.InDelta(t, 5, median(values), 0)
	assert.Equal(t, []float64{9, 1, 5}, values, "left as they were")
}

func TestStacksAreCountedByPackage(t *testing.T) {
	t.Parallel()
	const profile = `goroutine profile: total 8
5 @ 0x1 0x2
#	0x1	example.com/a.(*T).loop+0x1	/a.go:1
#	0x2	example.com/a.run+0x1	/a.go:2

2 @ 0x3
#	0x3	example.com/ab.run+0x1	/ab.go:1

1 @ 0x4
#	0x4	main.main+0x1	/main.go:1
`
	for packages, want := range map[string]int{
		"example.com/a": 5, "example.com/ab": 2, "example.com/a example.com/ab": 7,
		"example.com": 0,
	} {
		got, err := countStacks(profile, strings.Fields(packages))
		require.NoError(t, err)
		assert.Equal(t, want, got, packages)
	}
}

func TestStallsArePartedByScript(t *testing.T) {
	t.Parallel()
	s := scripts{acquire: script{sha: "aaa"}, renew: script{sha: "bbb"}}
	h := &holding{who: lockbeat, slow: []slow{
		{time.Millisecond, []string{"EVALSHA", "aaa", "2"}},
		{3 * time.Millisecond, []string{"evalsha", "bbb", "100"}},
		{2 * time.Millisecond, []string{"INFO"}},
	}}
	renewals, others := h.stalls(s)
	assert.Len(t, renewals, 1)
	assert.Len(t, others, 2)
	assert.Equal(t, "3ms evalsha", slowest(h.slow))
}

func TestScriptsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	s, err := loadScripts()
	require.NoError(t, err)
	for _, one := range []script{s.acquire, s.renew, s.release} {
		assert.Len(t, one.sha, 40)
		assert.Contains(t, one.text, "KEYS[")
	}
}

// A holder that loses leases says so.
func TestContextsCountTheLost(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := contexts{ctx, nil, t.Context()}
	assert.Zero(t, c.lost())
	cancel()
	assert.Equal(t, 1, c.lost())
}
