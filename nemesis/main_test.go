package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/clock"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/fault"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(worker.Env); spec != "" {
		os.Exit(worker.Main(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	// Each test is up to a dozen processes. With four at once two slow cores had no time for any of
	// them: no request was answered in its time.
	flag.Parse()
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	remove, err := clock.Install()
	if errors.Is(err, redistest.ErrMissing) {
		remove, err = func() error { return nil }, nil // each test says so
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Lingering()...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := remove(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// needRedis skips a test, or fails it if that is asked for, where there is no redis-server.
func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	} else if os.Getenv(redistest.RequireEnv) == "1" || !errors.Is(err, exec.ErrNotFound) {
		require.NoError(t, err)
	}
	t.Skip(redistest.ErrMissing)
}

// fire runs the program.
func fire(t *testing.T, args ...string) (code int, printed string) {
	t.Helper()
	var out bytes.Buffer
	code = run(context.Background(), args, &out, &out)
	return code, out.String()
}

func TestSoundOnEachDeployment(t *testing.T) {
	t.Parallel()
	needRedis(t)
	for deployment, d := range map[string]*deploy.Deployment{
		deploy.Standalone: {}, deploy.Quorum3: {Quorum: true},
		deploy.Sentinel: {Sentinel: new(redistest.Sentinel)},
		deploy.Cluster:  {Cluster: new(redistest.Cluster)},
	} {
		t.Run(deployment, func(t *testing.T) {
			t.Parallel()
			kinds, err := fault.Named(&fault.Field{Deployment: d}, nil)
			require.NoError(t, err)
			var names []string
			for _, k := range kinds {
				names = append(names, k.Name)
			}
			code, printed := fire(t, "-deployment", deployment, "-duration", "6s", "-workers", "3",
				"-faults", strings.Join(names, ","))
			assert.Zero(t, code, printed)
			assert.Contains(t, printed, "| "+deployment+" | 1 | ")
		})
	}
}

// Where most processes are killed at once, and where slots move, those who live
// and wait are served. Without uses that last for seconds no other wait is long.
func TestLiveWaitersAreServed(t *testing.T) {
	t.Parallel()
	needRedis(t)
	for fault, c := range map[string]struct{ deployment, workers, most string }{
		"kill-most":  {"standalone", "12", "5s"},
		"reshard":    {"cluster", "3", "4s"},
		"slot-moves": {"cluster", "3", "7s"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			code, printed := fire(t, "-deployment", c.deployment, "-duration", "6s", "-faults",
				fault, "-workers", c.workers, "-callers", "3", "-keys", "3", "-long", "1000000",
				"-most-wait", c.most)
			assert.Zero(t, code, printed)
		})
	}
}

// A lock that is broken on purpose: the suite must find it, by the
// rule that it breaks, and say how to see it again.
func TestFindsFlaws(t *testing.T) {
	t.Parallel()
	needRedis(t)
	for flaw, c := range map[worker.Flaw]struct{ faults, span, long, rule string }{
		worker.LateRelease:  {"delay", "-duration 4s", "400", "exclusion: "},
		worker.DeafRenewal:  {"rights-lost", "-duration 8s", "3", "exclusion: "},
		worker.ShortRenewal: {"delay", "-duration 6s", "5", "exclusion: "},
		worker.StaleToken:   {"delay", "-duration 4s", "400", "token twice: "},
		worker.OneMore:      {"delay", "-duration 4s", "20", "exclusion: "},
		worker.EagerBreak:   {"delay", "-duration 4s", "400", "exclusion: "},
	} {
		t.Run(string(flaw), func(t *testing.T) {
			t.Parallel()
			// On a busy machine few locks are taken in a while, and a flaw shows in few; it may
			// break another rule before.
			code, printed := 0, ""
			for begun := time.Now(); !strings.Contains(printed, "  "+c.rule) &&
				time.Since(begun) < time.Minute; {
				code, printed = fire(t, append(strings.Fields(c.span), "-deployment", "standalone",
					"-ttl", "1s", "-workers", "3", "-flaw", string(flaw),
					"-faults", c.faults, "-long", c.long, "-keys", "3")...)
			}
			assert.Equal(t, 1, code)
			assert.Contains(t, printed, "  "+c.rule)
			assert.Contains(t, printed,
				"again: go run . -deployment standalone -seed 1 "+c.span+
					" -faults "+c.faults+" -ttl 1s -workers 3 -keys 3 ")
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-flaw none", "-workers 0", "-callers 0", "-keys 0", "-long 0", "-most-wait -1s", "-break-every -1s",
		"-ttl 10ms", "-duration soon", "standalone",
	} {
		code, printed := fire(t, strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.NotEmpty(t, printed, args)
	}
	code, printed := fire(t, "-deployment", "elsewhere")
	assert.Equal(t, 1, code)
	assert.Contains(t, printed, `there is no deployment "elsewhere"`)
}
