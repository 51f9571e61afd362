package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A caller whose release is in the background has its result when the function has returned. The
// next caller comes behind the release, and a panic is waited for as always.
func TestReleaseInBackground(t *testing.T) {
	t.Parallel()
	for what, name := range map[string]string{"one lock": "a", "several": lockmw.Keys("a", "b")} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				const slow = 100 * time.Millisecond
				s.Default(script.Release, script.Pass().Slow(slow))
				do := func(work func()) error {
					_, err := lockmw.Do(t.Context(), k, name, func(context.Context) (int, error) {
						work()
						return 0, nil
					}, lockmw.ReleaseInBackground())
					return err
				}
				begun := time.Now()
				require.NoError(t, do(func() {}))
				require.Equal(t, begun, time.Now())
				synctest.Wait()
				require.NotEmpty(t, s.Calls(script.Release), "it is on its way")
				require.NoError(t, do(func() {}))
				require.Equal(t, begun.Add(slow), time.Now())
				require.Panics(t, func() { _ = do(func() { panic("in the function") }) })
				require.Equal(t, begun.Add(3*slow), time.Now())
			})
		})
	}
}
