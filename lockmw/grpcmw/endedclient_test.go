package grpcmw_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// A stream on a context that had ended already made the process crash: what watches the context ran
// before it was set up. A gateway opens its streams on the contexts of its callers.
func TestStreamsOnContextsThatHaveEnded(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	client, _ := streamClient(t, k, &service{duplex: echo}, grpcmw.ForMethod(duplex, outputAccount))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2000 {
		stream, err := client.FullDuplexCall(ctx)
		if err == nil {
			_, err = stream.Recv()
		}
		require.Error(t, err)
	}
}
