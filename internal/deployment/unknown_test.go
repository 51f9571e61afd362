package deployment_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
)

// LOCKBEAT_PREFX=a: was ignored: two deploys that should have been apart had
// the same locks.
func TestVariablesThatThereAreNot(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LOCKBEAT_PREFX", "LOCKBEAT_PASSWORD", "LOCKBEAT_URL_", "LOCKBEAT_TTL", "LOCKBEAT_",
	} {
		err := deployment.CheckNames([]string{"PATH=/bin", name + "=secret"})
		require.ErrorIs(t, err, renewer.ErrConfig, name)
		assert.ErrorContains(t, err, name+": there is no such variable")
		assert.NotContains(t, err.Error(), "secret")
	}
	assert.NoError(t, deployment.CheckNames([]string{
		"LOCKBEAT_URL=redis://h", "LOCKBEAT_PREFIX=a:", "LOCKBEAT_PREFX=", "LOCKBEATS=1",
		"LOCKBEAT_CONFIG=/f", "LOCKBEAT_NAME=n", "LOCKBEAT_FENCE=7", "LOCKBEAT_REQUIRE_REDIS=1",
		"LOCKBEAT_SERVICE_HOST=h", "LOCKBEAT_SERVICE_PORT=1", "LOCKBEAT_SERVICE_PORT_HTTP=1",
		"LOCKBEAT_PORT=tcp://h:1", "LOCKBEAT_PORT_80_TCP=h", "LOCKBEAT_PORT_80_TCP_ADDR=h",
		"LOCKBEAT_PAGE_SERVICE_HOST=h", "LOCKBEAT_PAGE_PORT_8080_TCP_PROTO=tcp",
	}))
}
