package grpcmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

var replaced = verdict{code: codes.Aborted, reason: "REPLACED"}

// Older calls are told that a newer one has their place, and their clients not to send them again.
func TestCallsThatWereReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []grpcmw.Option
		ran  verdict // of the call whose handler ran
	}{
		"replaced":                   {[]grpcmw.Option{grpcmw.Replace()}, replaced},
		"the newest waits":           {[]grpcmw.Option{grpcmw.Latest()}, verdict{}},
		"a refusal before it":        {[]grpcmw.Option{grpcmw.Refuse(), grpcmw.Latest()}, verdict{}},
		"a wait, and no more places": {[]grpcmw.Option{grpcmw.Latest(), grpcmw.Wait(time.Hour), grpcmw.MaxWaiters(1)}, verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, end := serve(t, &service{unary: func(
					ctx context.Context, _ *pb.SimpleRequest,
				) (*pb.SimpleResponse, error) {
					select {
					case <-ctx.Done():
						elapse(time.Second)
						return nil, ctx.Err()
					case <-time.After(5 * time.Second):
						return &pb.SimpleResponse{}, nil
					}
				}}, nil, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(newKeeper(t, memory.New()),
					append(c.opts, grpcmw.ForMethod(unary, account))...)))
				defer end()
				type result struct {
					err     error
					trailer metadata.MD
				}
				asks := func() <-chan result {
					done := make(chan result, 1)
					go func() {
						var r result
						_, r.err = client.UnaryCall(t.Context(), request("a1"), grpc.Trailer(&r.trailer))
						done <- r
					}()
					synctest.Wait()
					return done
				}
				begun := time.Now()
				first, second, third := asks(), asks(), asks()
				waited := <-second
				assert.Equal(t, begun, time.Now(), "at once")
				assert.Equal(t, replaced, verdictOf(t, waited.err))
				assert.Equal(t, []string{"-1"}, waited.trailer.Get(pushback))
				ran := <-first
				assert.Equal(t, c.ran, verdictOf(t, ran.err))
				if ran.err != nil {
					assert.Equal(t, []string{"-1"}, ran.trailer.Get(pushback))
				}
				require.NoError(t, (<-third).err)
			})
		})
	}
}

// A stream that a newer one replaces fails, whatever it waits for.
func TestReplacedStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, memory.New())
		first := make(chan error, 1)
		go func() {
			first <- serveStream(k, newStream(t.Context()), func(s grpc.ServerStream) error {
				return s.RecvMsg(nil)
			}, grpcmw.Replace())
		}()
		synctest.Wait()
		require.NoError(t, serveStream(k, newStream(t.Context()), func(grpc.ServerStream) error {
			return nil
		}, grpcmw.Replace()))
		err := <-first
		require.Equal(t, replaced, verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrReplaced)
	})
}

// What no call can have is told of when the program starts.
func TestReplaceThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	known, _ := scripted(t)
	k := newKeeper(t, memory.New())
	for says, f := range map[string]func(){
		"a *script.Store does not know": func() { grpcmw.UnaryServerInterceptor(known, grpcmw.Replace()) },
		"not for limits":                func() { grpcmw.StreamServerInterceptor(k, grpcmw.Latest(), grpcmw.AtMost(2)) },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				assert.Contains(t, text, says)
			}()
			f()
		}()
	}
	grpcmw.UnaryServerInterceptor(known, grpcmw.Replace(), grpcmw.Refuse()) // the later one counts
}
