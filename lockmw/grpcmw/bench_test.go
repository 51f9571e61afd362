package grpcmw_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func benchKeeper(b *testing.B) *renewer.Keeper {
	b.Helper()
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(b, err)
	b.Cleanup(func() { _ = k.Shutdown(context.WithoutCancel(b.Context())) })
	return k
}

// BenchmarkUnary compares a unary call under a lock in memory with
// lockmw.Do, and with a method that has no rule.
func BenchmarkUnary(b *testing.B) {
	k := benchKeeper(b)
	in := grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))
	req, info := request("a1"), &grpc.UnaryServerInfo{FullMethod: unary}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	b.Run("locked", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = in(b.Context(), req, info, handler)
		}
	})
	b.Run("lockmw.Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = lockmw.Do(b.Context(), k, "a1", func(context.Context) (any, error) {
				return nil, nil
			})
		}
	})
	b.Run("no rule", func(b *testing.B) {
		b.ReportAllocs()
		other := &grpc.UnaryServerInfo{FullMethod: foreign}
		for b.Loop() {
			_, _ = in(b.Context(), req, other, handler)
		}
	})
}

// BenchmarkStreamOperation is what a lock adds to each SendMsg and RecvMsg of a server's stream.
func BenchmarkStreamOperation(b *testing.B) {
	k := benchKeeper(b)
	in := grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
	stream := &fakeServerStream{ctx: b.Context(), recv: func(any) error {
		return nil
	}, send: func(any) error { return nil }}
	for name, use := range map[string]func(grpc.ServerStream) error{
		"send": func(s grpc.ServerStream) error { return s.SendMsg(nil) },
		"recv": func(s grpc.ServerStream) error { return s.RecvMsg(nil) },
	} {
		b.Run(name, func(b *testing.B) {
			_ = in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
				func(_ any, s grpc.ServerStream) error {
					b.ReportAllocs()
					for b.Loop() {
						_ = use(s)
					}
					return nil
				})
		})
	}
}
