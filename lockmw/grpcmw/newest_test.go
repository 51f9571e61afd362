package grpcmw_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

var replaced = verdict{code: codes.Aborted, reason: "REPLACED"}

// A stream that a newer one replaces fails, whatever it waits for.
func TestReplacedStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, memory.New())
		first := make(chan error, 1)
		go func() {
			first <- serveStream(k, newStream(t.Context()), func(s grpc.ServerStream) error {
				return s.RecvMsg(nil)
			}, lockmw.Replace())
		}()
		synctest.Wait()
		require.NoError(t, serveStream(k, newStream(t.Context()), func(grpc.ServerStream) error {
			return nil
		}, lockmw.Replace()))
		err := <-first
		require.Equal(t, replaced, verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrReplaced)
	})
}
