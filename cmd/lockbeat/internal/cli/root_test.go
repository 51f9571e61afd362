package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
)

// The tests are built from a checkout; scripts/release sees the version of a
// release.
func TestVersion(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder
	assert.Zero(t, cli.Main([]string{"--version"}, &stdout, &stderr))
	assert.Regexp(t, `^lockbeat version \S+\n$`, stdout.String())
	assert.Empty(t, stderr.String())
}
