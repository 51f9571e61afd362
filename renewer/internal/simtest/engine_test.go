package simtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

const (
	faultVariable = "SIM_FAULT"
	childVariable = "SIM_CHILD"
)

// isChild reports whether this process plays for another one, repeatably.
func isChild() bool { return os.Getenv(childVariable) != "" }

// jitterByInstant takes the engine's jitter from the instant, which in a bubble
// is the same whenever a world is played again.
func jitterByInstant() {
	timing.Random = func(n int64) int64 {
		x := uint64(time.Now().UnixNano())
		x = (x ^ x>>31) * 0x9e3779b97f4a7c15
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		return int64((x ^ x>>32) % uint64(n))
	}
}

// build makes a binary of these tests without the race detector, under which
// goroutines are woken in a random order, and which takes five times as long:
// TestEngineAsItIs is for that.
var build = sync.OnceValues(func() (binary string, err error) {
	buildDir, err = os.MkdirTemp("", "lockbeat-simtest")
	if err != nil {
		return "", err
	}
	binary = filepath.Join(buildDir, "simtest.test")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return binary, nil
})

// buildDir is to be removed at the end.
var buildDir string

// runChild runs TestSimulation in such a binary, with a fault of the store or
// none, and gives its output. It runs on one processor, so that goroutines take
// their turns in the same order when a world is played again.
func runChild(t *testing.T, fault string, flags ...string) (out string, passed bool) {
	t.Helper()
	binary, err := build()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary,
		append([]string{"-test.run=^TestSimulation$", "-test.v"}, flags...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1", faultVariable+"="+fault, "GOMAXPROCS=1")
	text, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return string(text), err == nil
}
