package suite_test

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/suite"
)

const many = 1000

func TestMain(m *testing.M) {
	suite.AtOnce(many)
	m.Run()
}

func TestSize(t *testing.T) {
	t.Setenv(suite.LongEnv, "")
	assert.False(t, suite.Long())
	assert.Equal(t, 1, suite.Size(1, 2))
	t.Setenv(suite.LongEnv, "1")
	assert.True(t, suite.Long())
	assert.Equal(t, 2, suite.Size(1, 2))
}

// The command line has the last word.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	const ranEnv = "LOCKBEAT_SUITE_RAN"
	if os.Getenv(ranEnv) != "" {
		assert.Equal(t, os.Getenv(ranEnv), flag.Lookup("test.parallel").Value.String())
		return
	}
	for want, args := range map[string][]string{
		strconv.Itoa(many): nil,
		"3":                {"-test.parallel=3"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0],
			append(args, "-test.run=^TestAtOnce$")...)
		cmd.Env = append(os.Environ(), ranEnv+"="+want)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
