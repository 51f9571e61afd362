package storetest_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer/memory"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokenEnv names the broken store that TestBroken runs the suite on,
// in a process of its own, since it must fail.
const brokenEnv = "LOCKBEAT_STORETEST_BROKEN"

func allFaults() map[string]fault {
	all := maps.Clone(faults)
	maps.Copy(all, inspectFaults)
	maps.Copy(all, newestFaults)
	return all
}

// TestBroken is run by TestSuiteFindsEachFault. By itself it has nothing to do.
func TestBroken(t *testing.T) {
	t.Parallel()
	fault, ok := allFaults()[os.Getenv(brokenEnv)]
	if !ok {
		return
	}
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		fault.Store = memory.New()
		return storetest.Fixture{Store: fault.broken}
	})
}

func TestSuiteFindsEachFault(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, fault := range allFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Only the case that must find it: another may hang on a fault for as long
			// as it allows. The one that hangs by design is ended by the timeout.
			only := "^TestBroken$/^" + regexp.QuoteMeta(strings.ReplaceAll(fault.found, " ", "_")) +
				"$"
			cmd := exec.CommandContext(t.Context(), self, "-test.run="+only, "-test.timeout=5s",
				"-test.count=1")
			cmd.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite is content:\n%s", out)
			assert.Contains(t, string(out), "TestBroken/"+strings.ReplaceAll(fault.found, " ", "_"))
		})
	}
}

// TestBlindStore runs the suite on a store that says as little as one may.
func TestBlindStore(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		silent := grants(nil, func(g *contract.Grant) {
			g.Holder, g.HeldFor, g.TTL = contract.Holder{}, 0, 0
		})
		return storetest.Fixture{Store: broken{Store: memory.New(), acquire: silent}, Blind: true}
	})
}

// TestClockOfItsOwn runs the suite on a store whose clock the test moves.
func TestClockOfItsOwn(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		return storetest.Fixture{Store: memory.New(), Advance: func(d time.Duration) {
			<-time.After(d)
		}}
	})
}
