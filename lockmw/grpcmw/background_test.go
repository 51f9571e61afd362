package grpcmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The reply does not wait for a release in the background.
func TestReleaseInBackground(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		b.store.Default(script.Release, script.Pass().Slow(100*time.Millisecond))
		on := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account),
			grpcmw.ReleaseInBackground())
		begun := time.Now()
		_, err := on(t.Context(), request("a1"), &grpc.UnaryServerInfo{FullMethod: unary},
			func(context.Context, any) (any, error) { return nil, nil })
		require.NoError(t, err)
		require.Equal(t, begun, time.Now())
		synctest.Wait()
		require.Len(t, b.store.Calls(script.Release), 1)
	})
}
