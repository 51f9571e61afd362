package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lines of the log by which docs/operate.md has a person find what is wrong are those that the
// log has.
func TestThePageForThePersonOnCallQuotesTheLog(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "operate.md"))
	require.NoError(t, err)
	logged := logLines(t)
	quoted := regexp.MustCompile("(?:WARN|INFO) `?([a-z ]+?)(?:`| …| [a-z_]+=)").
		FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(quoted), 10)
	for _, line := range quoted {
		assert.True(t, logged[line[1]], line[0])
	}
}
