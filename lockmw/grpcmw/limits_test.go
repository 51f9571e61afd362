package grpcmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// What a call gets for which a limit has no slot: when to come back, and the
// number, and no name.
func TestCallsAtTheirLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  lockmw.Set
		opts []grpcmw.Option
		want string
	}{
		"full":   {lockmw.Limit("iban", 1), []grpcmw.Option{lockmw.Refuse()}, "1"},
		"waited": {lockmw.Limit("iban", 1), []grpcmw.Option{lockmw.Wait(time.Second)}, "1"},
		"closed": {lockmw.Limit("iban", 0), nil, "0"},
		"by a function": {
			lockmw.LimitFunc("iban", func() int { return 1 }), []grpcmw.Option{lockmw.Refuse()}, "1",
		},
		"several": {
			lockmw.All(lockmw.Limit("iban", 1), lockmw.Limit("all", 9)),
			[]grpcmw.Option{lockmw.Refuse()},
			"1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, memory.New())
				_, exit, err := adapter.Enter(t.Context(), k, lockmw.Limit("iban", 1))
				require.NoError(t, err)
				in := grpcmw.UnaryServerInterceptor(k, append(c.opts, grpcmw.ForMethod(unary,
					func(*pb.SimpleRequest) lockmw.Set { return c.key }))...)
				_, err = in(t.Context(), request(""), &grpc.UnaryServerInfo{FullMethod: unary},
					func(context.Context, any) (any, error) {
						t.Error("runs")
						return nil, nil
					})
				require.ErrorIs(t, err, renewer.ErrBusy)
				s := status.Convert(err)
				assert.Equal(t, codes.ResourceExhausted, s.Code())
				assert.NotContains(t, s.Proto().String(), "iban")
				require.Len(t, s.Details(), 2)
				why := s.Details()[0].(*errdetails.ErrorInfo)
				assert.Equal(t, "LOCK_BUSY", why.GetReason())
				assert.Equal(t, c.want, why.GetMetadata()["limit"])
				assert.Positive(t, s.Details()[1].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
				require.NoError(t, exit(nil))
			})
		})
	}
}
