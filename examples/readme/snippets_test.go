// Package readme_test checks the README and the docs.
package readme_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// snippet is a piece of Go in a page.
var snippet = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")

// All Go in the README is in the programs of examples/first and examples/start, and Go in another
// page that begins with the name of an example's file is in that. They have tests of their own.
// What stands between empty lines is there line for line, and may be indented.
func TestSnippetsAreInThePrograms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*/*.go")
	require.NoError(t, err)
	programs := make(map[string]string)
	all := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		program := flat(string(text))
		programs["examples"+strings.TrimPrefix(file, "..")] = program
		if folder := filepath.Base(filepath.Dir(file)); folder == "first" || folder == "start" {
			all += program
		}
	}
	checked := 0
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range snippet.FindAllStringSubmatch(string(text), -1) {
			name, code, _ := strings.Cut(found[1], "\n")
			program, named := programs[strings.TrimPrefix(name, "// ")]
			if !named && strings.HasPrefix(name, "// examples/") {
				assert.Fail(t, "it does not exist", "%s: %s", page, name)
			}
			if page == "../../README.md" {
				program, named, code = all, true, found[1]
			}
			for part := range strings.SplitSeq(code, "\n\n") {
				if named {
					checked++
					part = strings.TrimSuffix(strings.TrimPrefix(flat(part), "import (\n"), ")\n")
					if !strings.Contains(program, part) {
						assert.Fail(t, "no program has this", "%s:\n%s", page, part)
					}
				}
			}
		}
	}
	assert.Greater(t, checked, 15)
}

// flat is a text without its indentation.
func flat(text string) string {
	var flat strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		flat.WriteString(strings.TrimSpace(line) + "\n")
	}
	return flat.String()
}
