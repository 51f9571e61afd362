package readme_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests that docs/testing.md shows pass, and fail if the function takes no lock.
func TestTheTestsOfTheDocs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	save(t, dir, strings.NewReplacer())
	out, err := runTests(t, dir)
	require.NoError(t, err, out)
	tested := []string{"TestItWaits", "TestOutcomes/Redis_goes_down", "TestOutcomes/key_deleted"}
	for _, name := range append(tested, "TestOnRedis") {
		assert.Contains(t, out, "--- PASS: "+name+" ")
	}

	without := strings.NewReplacer("return lockmw.Do(ctx, k, orderLock(order), func(",
		"_ = lockmw.Held\n\treturn func(", `do(ctx, order)
	})`, `do(ctx, order)
	}(ctx)`)
	save(t, dir, without)
	out, err = runTests(t, dir)
	require.Error(t, err)
	for _, name := range tested {
		assert.Contains(t, out, "--- FAIL: "+name+" ")
	}
}

// runTests runs the tests that are saved in dir.
func runTests(t *testing.T, dir string) (out string, err error) {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.Len(t, tests, 3)
	args := append([]string{
		"test", "-v", "-count=1", "-timeout=2m", "-race=" + raceDetector(),
		filepath.Join(dir, "shop.go"),
	}, tests...)
	//nolint:gosec // the arguments are the test's own
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "LOCKBEAT_REQUIRE_REDIS=1")
	text, err := cmd.CombinedOutput()
	return string(text), err
}
