//go:build linux

package run_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// sample is a line of a file of metrics.
var sample = regexp.MustCompile(
	`^([a-z_]+)\{run="((?:[^"\\]|\\["\\n])*)"(?:,outcome="([a-z]+)")?\} ([0-9.]+)\n$`)

// readMetrics reads a file as node_exporter does, and returns its values by
// name, or by outcome.
func readMetrics(t *testing.T, path, label string) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	values, helped, typed := map[string]float64{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); words[0] == "#" {
			seen := map[string]map[string]bool{"HELP": helped, "TYPE": typed}[words[1]]
			assert.False(t, seen[words[2]], "twice: %s", line)
			seen[words[2]] = true
			continue
		}
		found := sample.FindStringSubmatch(line)
		require.NotNil(t, found, "%q", line)
		assert.True(t, helped[found[1]] && typed[found[1]], line)
		assert.Equal(t, label, found[2])
		key := found[1]
		if found[3] != "" {
			key = found[3]
		}
		assert.NotContains(t, values, key)
		values[key], err = strconv.ParseFloat(found[4], 64)
		require.NoError(t, err)
	}
	return values
}

const (
	lastStart   = "lockbeat_run_last_start_timestamp_seconds"
	lastEnd     = "lockbeat_run_last_end_timestamp_seconds"
	lastSuccess = "lockbeat_run_last_success_timestamp_seconds"
	lastTook    = "lockbeat_run_last_duration_seconds"
	lastStatus  = "lockbeat_run_last_exit_status"
)

// Counts go on over runs, the rest is about the last one that did something,
// and others who write into the folder, or have written nonsense into the file,
// do not matter.
func TestMetrics(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	folder := t.TempDir()
	path := folder + `/a"b\.prom`
	require.NoError(t, os.WriteFile(path, []byte("garbage\nlockbeat_runs_total{} x\n\x00"), 0o600))
	const label = `a\"b\\`
	run := func(want int, args ...string) map[string]float64 {
		_, stderr, status := outcome(t, server.Addr(),
			append([]string{"--name=k", "--metrics=" + path}, args...)...)
		require.Equal(t, want, status, stderr)
		return readMetrics(t, path, label)
	}
	before := float64(time.Now().Unix())

	failed := run(3, "--", "sh", "-c", "exit 3")
	assert.InDelta(t, 3, failed[lastStatus], 0)
	assert.Zero(t, failed[lastSuccess])
	assert.GreaterOrEqual(t, failed[lastStart], before)
	assert.GreaterOrEqual(t, failed[lastEnd], failed[lastStart])

	p := start(t, server.Addr(), "--name=k", "--metrics="+path, "--", "sh", "-c", "echo up; read x; exit 0")
	p.expect("up")
	running := readMetrics(t, path, label)
	assert.Greater(t, running[lastStart], running[lastEnd], "so that one that hangs is seen")
	skipped := run(0, "--skip", "--", "true")
	run(75, "--wait=0", "--", "true")
	assert.InDelta(t, running[lastStart], skipped[lastStart], 0, "of the one that runs")
	require.NoError(t, p.stdin.Close())
	require.Zero(t, p.status())

	done := readMetrics(t, path, label)
	assert.InDelta(t, done[lastEnd], done[lastSuccess], 0)
	assert.Zero(t, done[lastStatus])
	assert.InDelta(t, done[lastEnd]-done[lastStart], done[lastTook], 0.01)
	missing := run(127, "--", "no-such-command")
	assert.InDelta(t, 127, missing[lastStatus], 0)
	assert.InDelta(t, done[lastSuccess], missing[lastSuccess], 0)
	_, _, status := outcome(t, "127.0.0.1:1", "--name=k", "--skip", "--metrics="+path, "--", "true")
	require.Equal(t, 69, status)

	all := readMetrics(t, path, label)
	for came, want := range map[string]float64{
		"succeeded": 1, "failed": 2, "skipped": 1, "held": 1, "unavailable": 1, "lost": 0,
	} {
		assert.InDelta(t, want, all[came], 0, came)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, left, 1)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode().Perm(), "node_exporter is another user")
}

// A file that can't be written keeps no job from running. One that is lost is
// counted as that.
func TestMetricsOfALossAndWithoutAFolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	out, stderr, status := outcome(t, server.Addr(), "--name=a",
		"--metrics=/does/not/exist.prom", "--", "echo", "ran")
	assert.Zero(t, status)
	assert.Equal(t, "ran\n", out)
	assert.Contains(t, stderr, "lockbeat: warning: --metrics: ")

	path := filepath.Join(t.TempDir(), "b.prom")
	p := start(t, server.Addr(), "--name=b", "--ttl=3s", "--metrics="+path, "--", "sh", "-c",
		"echo up; exec sleep 1000")
	p.expect("up")
	require.NoError(t, server.Do("DEL", key("b")).Error())
	require.Equal(t, 76, p.status())
	lost := readMetrics(t, path, "b")
	assert.InDelta(t, 1, lost["lost"], 0)
	assert.InDelta(t, 76, lost[lastStatus], 0)
}
