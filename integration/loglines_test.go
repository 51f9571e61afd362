package integration_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tableLine is what stands between backticks in the first column of a table.
var (
	tableRow  = regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\|")
	tableLine = regexp.MustCompile("`([^`]+)`")
)

// Each line that the code can log is in docs/log.md, so that a person on call finds there what it
// means and what to do; and each line there can be logged.
func TestThePageHasEachLineOfTheLog(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/log.md")
	require.NoError(t, err)
	lines := logLines(t)
	require.Greater(t, len(lines), 40)
	found := make(map[string]bool)
	for _, row := range tableRow.FindAllStringSubmatch(string(page), -1) {
		for _, cell := range tableLine.FindAllStringSubmatch(row[1], -1) {
			parts := strings.Split(strings.ReplaceAll(cell[1], `"`, ""), "…")
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			line, known := regexp.MustCompile("^"+strings.Join(parts, ".*")+"$"), false
			for text := range lines {
				if line.MatchString(text) {
					known, found[text] = true, true
				}
			}
			assert.True(t, known, "docs/log.md has a line that is not logged: %s", cell[1])
		}
	}
	for text := range lines {
		assert.True(t, found[text], "docs/log.md lacks a line: %s", text)
	}
}
