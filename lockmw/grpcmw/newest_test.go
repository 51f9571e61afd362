package grpcmw_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
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

// What no call can have is told of when the program starts.
func TestReplaceThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	known, _ := scripted(t)
	for says, f := range map[string]func(){
		"a *script.Store does not know": func() { grpcmw.UnaryServerInterceptor(known, lockmw.Replace()) },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				assert.Contains(t, text, says)
			}()
			f()
		}()
	}
	grpcmw.UnaryServerInterceptor(known, lockmw.Replace(), lockmw.Refuse()) // the later one counts
}
