package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A server that is frozen answers nothing, yet its clocks run on.
func ExampleStart() {
	_ = func(t *testing.T) {
		server := redistest.Start(t)
		client := server.Client(t)
		require.NoError(t, server.Stop())
		_ = client // what is tested asks in vain
		require.NoError(t, server.Cont())
	}
}
