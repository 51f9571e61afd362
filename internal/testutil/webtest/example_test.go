package webtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lock is held by another caller while a guard is asked for it.
func ExampleInBubble() {
	_ = func(t *testing.T) {
		webtest.InBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			release := webtest.Hold(t, k, "order:42")
			defer release()
			require.Equal(t, []string{"order:42"}, webtest.Names(s))
		})
	}
}
