package integration_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/safety.md, docs/limits.md and docs/compatibility.md point at tests, and at cases of the
// conformance suite. These exist.
func TestThePromisesHaveTests(t *testing.T) {
	t.Parallel()
	root := ".."
	safety, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	limits, err := os.ReadFile(filepath.Join(root, "docs", "limits.md"))
	require.NoError(t, err)
	compatibility, err := os.ReadFile(filepath.Join(root, "docs", "compatibility.md"))
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(
		string(safety)+string(limits)+string(compatibility), -1)
	require.Greater(t, len(named), 50)

	suite, err := os.ReadFile(filepath.Join(root, "testutil", "storetest", "limits.go"))
	require.NoError(t, err)
	exists := func(name string) bool { return bytes.Contains(suite, []byte("{"+name+", ")) }
	_, table, _ := strings.Cut(string(limits), "## How counters")
	cases := regexp.MustCompile(`"[^"]+"`).FindAllString(table, -1)
	require.Greater(t, len(cases), 8)
	for _, name := range cases {
		assert.True(t, exists(name), "no case is called %s", name)
	}

	exist := make(map[string]bool)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if function, ok := strings.CutPrefix(line, "func Test"); ok {
				name, _, _ := strings.Cut(function, "(")
				exist["Test"+name] = true
			}
		}
		return err
	})
	require.NoError(t, err)
	for _, name := range named {
		assert.True(t, exist[name[1]], "no test is called %s", name[1])
	}
}
