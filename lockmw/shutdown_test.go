package lockmw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// Work that Shutdown waits for gets the further locks that it asks for, in line
// as ever; callers that hold nothing are refused.
func TestWorkThatIsWaitedForMayLockMore(t *testing.T) {
	t.Parallel()
	for name, further := range map[string]lockmw.Set{
		"a lock": lockmw.All("shared"), "a slot": lockmw.Limit("slots", 1),
		"both": lockmw.All("shared").And(lockmw.Limit("slots", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, err := renewer.New(memory.New(), renewer.Config{Log: renewer.Silent})
				require.NoError(t, err)
				rest := func(context.Context) error { <-time.After(time.Second); return nil }
				var running sync.WaitGroup
				for i := range 3 {
					running.Go(func() {
						err := lockmw.Run(t.Context(), k, fmt.Sprint(i), func(ctx context.Context) error {
							<-time.After(time.Second)
							return lockmw.Run(ctx, k, further, rest)
						})
						assert.NoError(t, err)
					})
				}
				for _, waits := range []any{"0", further} {
					running.Go(func() {
						<-time.After(time.Second / 2)
						var err error
						if set, ok := waits.(lockmw.Set); ok {
							<-time.After(time.Second)
							err = lockmw.Run(t.Context(), k, set, rest)
						} else {
							err = lockmw.Run(t.Context(), k, "0", rest)
						}
						assert.ErrorIs(t, err, renewer.ErrShutdown)
					})
				}
				<-time.After(3 * time.Second / 4)
				began := time.Now()
				require.NoError(t, k.Shutdown(t.Context()))
				assert.Equal(t, 13*time.Second/4, time.Since(began), "one after another")
				running.Wait()
			})
		})
	}
}

// Work that is told to stop gets no further lock, whether it waits for one or
// asks then.
func TestWorkThatWasToldToStopLocksNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(memory.New(), renewer.Config{Log: renewer.Silent})
		require.NoError(t, err)
		var running sync.WaitGroup
		holds := func(name string, fn func(context.Context)) {
			running.Go(func() {
				err := lockmw.Run(t.Context(), k, name, func(ctx context.Context) error {
					fn(ctx)
					return nil
				}, lockmw.Strict())
				assert.ErrorIs(t, err, renewer.ErrLost)
			})
		}
		further := func(ctx context.Context) {
			err := lockmw.Run(context.WithoutCancel(ctx), k, "taken", func(context.Context) error {
				t.Error("runs")
				return nil
			}, lockmw.Wait(lockmw.NoBound))
			assert.ErrorIs(t, err, renewer.ErrShutdown)
		}
		holds("taken", func(ctx context.Context) { <-ctx.Done() })
		synctest.Wait()
		holds("waits", further)
		holds("asks", func(ctx context.Context) {
			<-ctx.Done()
			further(ctx)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		require.Error(t, k.Shutdown(ctx))
		running.Wait()
	})
}
