package storetest_test

import (
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer/memory"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokenEnv is set in the processes that TestBroken runs the suite in, since it
// must fail.
const brokenEnv = "STORETEST_BROKEN"

// TestBroken is run by TestSuiteFindsEachFault. By itself it has nothing to do.
// Of each broken store it plays only the case that must find it: another may
// hang for as long as it allows.
func TestBroken(t *testing.T) {
	t.Parallel()
	if os.Getenv(brokenEnv) == "" {
		return
	}
	for name, fault := range allFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunOne(t, fault.found, func(*testing.T) storetest.Fixture {
				fault.Whole = engine.In(memory.New())
				return storetest.Fixture{Store: fault.broken}
			})
		})
	}
}

func allFaults() map[string]fault {
	all := maps.Clone(faults)
	maps.Copy(all, inspectFaults)
	maps.Copy(all, newestFaults)
	return all
}

func TestSuiteFindsEachFault(t *testing.T) {
	t.Parallel()
	const hangs = "stop_waits_for_wake"
	t.Run("that hangs, until the timeout", func(t *testing.T) {
		t.Parallel()
		out := runBroken(t, "-test.run=^TestBroken$/^"+hangs+"$", "-test.timeout=2s")
		assert.Contains(t, out, "TestBroken/"+hangs)
	})
	t.Run("that ends", func(t *testing.T) {
		t.Parallel()
		out := runBroken(t, "-test.run=^TestBroken$", "-test.skip=/"+hangs, "-test.timeout=1m")
		for name := range allFaults() {
			name = strings.ReplaceAll(name, " ", "_")
			assert.True(t, name == hangs || strings.Contains(out, "--- FAIL: TestBroken/"+name+" "),
				"the suite is content with this: %s", name)
		}
	})
}

// runBroken runs TestBroken, which must fail, and returns what it says.
func runBroken(t *testing.T, flags ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, append(flags, "-test.count=1")...)
	cmd.Env = append(os.Environ(), brokenEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.ErrorAs(t, err, new(*exec.ExitError), "%s", out)
	return string(out)
}

// TestBlindStore runs the suite on a store that says as little as one may.
func TestBlindStore(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		silent := grants(nil, func(g *contract.Grant) {
			g.Holder, g.HeldFor, g.TTL = contract.Holder{}, 0, 0
		})
		return storetest.Fixture{Store: broken{Whole: engine.In(memory.New()), acquire: silent}, Blind: true}
	})
}

// TestClockOfItsOwn runs the suite on a store whose clock the test moves.
func TestClockOfItsOwn(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		return storetest.Fixture{Store: memory.New().Engine(), Advance: func(d time.Duration) {
			<-time.After(d)
		}}
	})
}
