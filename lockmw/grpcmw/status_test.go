package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Keys may carry personal data. What is sent to the caller, and what
// an error's text would carry there, has none.
func TestNoKeyLeavesTheProcess(t *testing.T) {
	t.Parallel()
	const secret = "iban-DE02"
	lasting := func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx) // says whose lock was lost
	}
	for name, c := range map[string]struct {
		key     string
		prepare func(t *testing.T, b *bubble)
		want    codes.Code
	}{
		"busy": {secret, func(t *testing.T, b *bubble) {
			b.store.Overwrite(secret, renewer.Holder{Node: secret, Operation: secret}, time.Hour)
		}, codes.Aborted},
		"store down": {secret, func(t *testing.T, b *bubble) {
			b.store.Default(script.Acquire, script.Fail(fmt.Errorf("no such key: %s", secret)))
		}, codes.Unavailable},
		"shut down": {secret, func(t *testing.T, b *bubble) {
			require.NoError(t, b.k.Shutdown(t.Context()))
		}, codes.Unavailable},
		"lost": {secret, func(t *testing.T, b *bubble) {
			b.store.Default(script.Renew, script.Gone())
		}, codes.Aborted},
		"too long": {
			strings.Repeat(secret, 100), func(*testing.T, *bubble) {},
			codes.InvalidArgument,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bubble) {
				c.prepare(t, b)
				in := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account))
				_, err := in(t.Context(), request(c.key), &grpc.UnaryServerInfo{FullMethod: unary},
					lasting)
				require.Equal(t, c.want, verdictOf(t, err).code)
				raw, marshalErr := proto.Marshal(status.Convert(err).Proto())
				require.NoError(t, marshalErr)
				require.NotContains(t, string(raw), secret)
				require.NotContains(t, status.Convert(fmt.Errorf("wrapped: %w", err)).Message(),
					secret)
			})
		})
	}
}

// Interceptors further out tell outcomes apart without reading texts.
func TestOutcomesAreToldApartByErrorsIs(t *testing.T) {
	t.Parallel()
	kinds := []error{
		renewer.ErrHeld, renewer.ErrUnavailable, renewer.ErrShutdown, renewer.ErrName,
		renewer.ErrLost,
		renewer.ErrConfig, context.Canceled, context.DeadlineExceeded,
	}
	for want, do := range map[error]func(t *testing.T, b *bubble, do call) error{
		renewer.ErrHeld: func(t *testing.T, b *bubble, do call) error {
			defer hold(t, b.k, "a1")()
			return do(t.Context(), never)
		},
		renewer.ErrUnavailable: func(t *testing.T, b *bubble, do call) error {
			b.store.Default(script.Acquire, script.Hang())
			return do(t.Context(), never)
		},
		renewer.ErrShutdown: func(t *testing.T, b *bubble, do call) error {
			require.NoError(t, b.k.Shutdown(t.Context()))
			return do(t.Context(), never)
		},
		renewer.ErrLost: func(t *testing.T, b *bubble, do call) error {
			b.store.Default(script.Renew, script.Hang())
			return do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return errHandler
			})
		},
		context.Canceled: func(t *testing.T, b *bubble, do call) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return do(ctx, never)
		},
		context.DeadlineExceeded: func(t *testing.T, b *bubble, do call) error {
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			defer cancel()
			return do(ctx, never)
		},
	} {
		calling(t, func(t *testing.T, b *bubble, side call) {
			err := do(t, b, side)
			for _, kind := range kinds {
				require.Equal(t, errors.Is(kind, want), errors.Is(err, kind), "%v is %v", err, kind)
			}
		})
	}
}

func TestTextsSayWhatToDo(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	defer hold(t, k, "a1")()
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account), grpcmw.Refuse())
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.Regexp(
		t, `^lockbeat: another call has the lock that this one needs; try again in [\d.]+m?s$`,
		status.Convert(err).Message(),
	)
	_, err = client.UnaryCall(within(t, soon), &pb.SimpleRequest{})
	require.Equal(t, "lockbeat: the key that the call is to be locked on is empty or too long",
		status.Convert(err).Message())
}
