package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f in a bubble with a scripted store and a keeper on it, all
// of whose locks must be free at the end.
func inBubble(
	t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper),
	edit ...func(*renewer.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := renewer.Config{TTL: renewer.DefaultTTL, Node: "here", Log: renewer.Silent}
		for _, e := range edit {
			e(&cfg)
		}
		s := script.New()
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		defer func() {
			// a failed test holds its locks
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			require.NoError(t, k.Shutdown(ctx))
			synctest.Wait()
		}()
		f(t, s, k)
	})
}

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }
