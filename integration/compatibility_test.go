package integration_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/compatibility.md names the servers of the workflow, the release of Go in go.mod, and the
// asynq that the modules require.
func TestCompatibilityIsWhatIsTested(t *testing.T) {
	t.Parallel()
	root := ".."
	page := readText(t, filepath.Join(root, "docs", "compatibility.md"))
	workflow := readText(t, filepath.Join(root, ".github", "workflows", "test.yml"))
	servers := make(map[string][]string)
	image := regexp.MustCompile(`(?m)^ +- (redis|valkey)(?:/valkey)?:([\d.]+)$`)
	for _, found := range image.FindAllStringSubmatch(workflow, -1) {
		servers[found[1]] = append(servers[found[1]], found[2])
	}
	require.Equal(t, []string{"redis", "valkey"}, slices.Sorted(maps.Keys(servers)))
	assert.Contains(t, page, "Redis "+strings.Join(servers["redis"], ", ")+"; Valkey "+
		strings.Join(servers["valkey"], ", "))

	release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(
		readText(t, filepath.Join(root, "go.mod")))
	require.NotNil(t, release)
	assert.Contains(t, page, "Go "+release[1]+" or later")

	asynq, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}",
		"github.com/hibiken/asynq").Output()
	require.NoError(t, err)
	minor := regexp.MustCompile(`^v(\d+\.\d+)\.`).FindStringSubmatch(string(asynq))
	require.NotNil(t, minor, "%s", asynq)
	assert.Contains(t, page, "asynq "+minor[1]+" ")
}

// docs/moving.md names the versions of the other libraries that its code was tested with.
func TestThePageOfOtherLocksNamesTheirVersions(t *testing.T) {
	t.Parallel()
	page, modules := readText(t, "../docs/moving.md"), readText(t, "go.mod")
	for _, library := range []string{"redsync/v4", "redislock", "redis/rueidis"} {
		version := regexp.MustCompile(library + ` (v\S+)`).FindStringSubmatch(modules)
		require.NotNil(t, version, library)
		assert.Contains(t, page, version[1], library)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
