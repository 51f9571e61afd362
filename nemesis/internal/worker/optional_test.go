package worker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A part of the engine that a wrapped store hides from it is never under fire. Each interface that
// the engine looks for in a store is passed on, or is one that workers have no use for.
func TestTheEngineFindsAllOfTheStore(t *testing.T) {
	t.Parallel()
	known := map[string]string{
		"Sharded":  "is passed on",
		"Recorder": "is for records, which workers do not keep",
	}
	files, err := filepath.Glob("../../../renewer/*.go")
	require.NoError(t, err)
	looks := regexp.MustCompile(`\bstore\.\((\w+)\)`)
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range looks.FindAllStringSubmatch(string(text), -1) {
			found++
			assert.Contains(t, known, match[1], "%s looks for it: pass it on in store.go", path)
		}
	}
	assert.Positive(t, found)
}
