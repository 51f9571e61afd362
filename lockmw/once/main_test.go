package once_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is that of keepers in bubbles.
var config = renewer.Config{TTL: renewer.DefaultTTL, Node: "here", Log: renewer.Silent}

// inBubble runs f in a bubble with a scripted store and a keeper on it, all
// of whose locks must be free at the end.
func inBubble(t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		f(t, s, keeper(t, s, "here"))
	})
}

// keeper is that of a node.
func keeper(t *testing.T, s renewer.Store, node string) *renewer.Keeper {
	t.Helper()
	cfg := config
	cfg.Node = node
	k, err := renewer.New(s, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context())))
		synctest.Wait()
	})
	return k
}

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

// owner makes an owner token.
func owner(n int) string { return fmt.Sprintf("%0*d", store.OwnerLen, n) }
