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

// named is the comment by which it begins if a file has it.
var named = regexp.MustCompile(`^// (\S+\.go)\n`)

// All Go in the README is in the programs of examples/first and examples/start,
// and Go in another page that begins with the name of a file is in that. These
// have tests of their own. What stands between empty lines is there line for
// line, and may be indented.
func TestSnippetsAreInThePrograms(t *testing.T) {
	t.Parallel()
	const root = "../../"
	programs := ""
	for _, folder := range []string{"first", "start"} {
		files, err := filepath.Glob("../" + folder + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			programs += read(t, file)
		}
	}
	snippets := 0
	pages, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, root+"README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range snippet.FindAllStringSubmatch(string(text), -1) {
			code, program := found[1], programs
			if page != root+"README.md" {
				name := named.FindStringSubmatch(code)
				if name == nil {
					continue
				}
				code, program = code[len(name[0]):], read(t, root+name[1])
			}
			snippets++
			for part := range strings.SplitSeq(code, "\n\n") {
				part = strings.TrimSuffix(strings.TrimPrefix(flat(part), "import (\n"), ")\n")
				if !strings.Contains(program, part) {
					assert.Fail(t, "no program has this", "%s:\n%s", page, part)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, snippets, 12)
}

// read returns a file's text, flat.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return flat(string(text))
}

// flat is a text without its indentation.
func flat(text string) string {
	var flat strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		flat.WriteString(strings.TrimSpace(line) + "\n")
	}
	return flat.String()
}
