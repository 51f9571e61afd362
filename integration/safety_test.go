package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/safety.md points at tests: they exist.
func TestThePromisesHaveTests(t *testing.T) {
	t.Parallel()
	root := ".."
	page, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 50)

	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z]+)\(`)
	exist := make(map[string]bool)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range function.FindAllStringSubmatch(string(text), -1) {
			exist[f[1]] = true
		}
		return err
	})
	require.NoError(t, err)
	for _, name := range named {
		assert.True(t, exist[name[1]], "no test is called %s", name[1])
	}
}
