package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// told is what a lock's error says to operators, and no remote caller may read.
const told = "iban-DE02"

var (
	toldBusy = verdict{code: codes.Aborted, reason: grpcmw.ReasonBusy}
	toldDown = verdict{code: codes.Unavailable, reason: grpcmw.ReasonUnavailable}
	toldLost = verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}

	errResponded = grpcmw.Respond(context.Background(), lockError(renewer.ErrHeld))
)

// ownErrors are what handlers return that use locks themselves, and what their callers should get
// to know.
var ownErrors = map[string]struct {
	err      error
	want     verdict
	pushback bool // a time to come back, or -1 if the lock was lost
	message  string
}{
	"held": {err: lockError(renewer.ErrHeld), want: toldBusy, pushback: true},
	"line full": {
		err: lockError(errors.Join(renewer.ErrQueueFull, renewer.ErrHeld)), want: toldBusy,
		pushback: true,
	},
	"skipped": {
		err:  fmt.Errorf("%w: %s", lockmw.ErrSkipped, lockError(renewer.ErrHeld).Error()),
		want: toldBusy, pushback: true,
	},
	"store down": {
		err:  fmt.Errorf("transfer: %w", lockError(renewer.ErrUnavailable)),
		want: toldDown, pushback: true,
	},
	"shut down": {err: lockError(renewer.ErrShutdown), want: toldDown, pushback: true},
	"lost": {
		err: &renewer.LostError{Name: told, Reason: renewer.ReasonExpired}, want: toldLost,
		pushback: true,
	},
	"lost, with a status of its own": {
		err:  errors.Join(errHandler, &renewer.LostError{Name: told}),
		want: toldLost, pushback: true,
	},
	"name": {
		err:  lockError(renewer.ErrName),
		want: verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
	},
	"misuse": {
		err:  fmt.Errorf("%w: once.Do takes the lock on %s", renewer.ErrConfig, told),
		want: verdict{code: codes.Internal},
	},
	"cancelled": {err: lockError(context.Canceled), want: verdict{code: codes.Canceled}},
	"late": {
		err:  lockError(context.DeadlineExceeded),
		want: verdict{code: codes.DeadlineExceeded},
	},
	"run once": {
		err: &once.Error{
			Kind: once.ErrAttemptsExhausted, Name: told,
			Last: renewer.Holder{Node: told, PID: 4711}, Err: lockError(renewer.ErrHeld),
		},
		want: verdict{code: codes.Unknown},
	},
	"taken apart": {
		err:  errors.New("transfer: " + lockError(renewer.ErrHeld).Error()),
		want: verdict{code: codes.Unknown},
	},
	"converted on the way": {
		err:  status.Convert(lockError(renewer.ErrHeld)).Err(),
		want: verdict{code: codes.Unknown},
	},
	"taken apart, beside a status": {
		err:  fmt.Errorf("%w: %s", errHandler, lockError(renewer.ErrHeld).Error()),
		want: verdict{code: codes.NotFound}, message: "no such account",
	},
	"held, beside a status": {
		err:  fmt.Errorf("%w: %w", errHandler, lockError(renewer.ErrHeld)),
		want: verdict{code: codes.NotFound}, message: "no such account",
	},
	"a status made by the handler": {
		err: errHandler, want: verdict{code: codes.NotFound},
		message: "no such account",
	},
	"a status of which it is a cause": {
		err:  ownStatusError{lockError(renewer.ErrHeld)},
		want: verdict{code: codes.FailedPrecondition}, message: "not now",
	},
	"a status in an error": {
		err:  fmt.Errorf("transfer: %w", errHandler),
		want: verdict{code: codes.NotFound}, message: "transfer: " + errHandler.Error(),
	},
	"nothing to do with locks": {
		err:  errors.New("insufficient funds"),
		want: verdict{code: codes.Unknown}, message: "insufficient funds",
	},
	"the handler's own cancellation": {
		err: context.Canceled, want: verdict{code: codes.Canceled},
		message: "context canceled",
	},
	"responded to already": {err: errResponded, want: toldBusy},
	"responded to already and wrapped": {
		err:  fmt.Errorf("%s: %w", told, errResponded),
		want: toldBusy,
	},
}

func lockError(kind error) error {
	return &renewer.Error{
		Op: "acquire", Name: told, Kind: kind,
		Holder: renewer.Holder{Node: told, PID: 4711}, HeldFor: time.Second,
	}
}

// ownStatusError is a handler's error type with a status of its own.
type ownStatusError struct{ error }

func (e ownStatusError) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, "not now")
}
func (e ownStatusError) Unwrap() error { return e.error }

// A handler's inner Do used to go out as codes.Unknown, with the lock's name and its holder's host
// and pid.
func TestAHandlersOwnLockErrorLeavesWithoutItsName(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	unaryRule, streamRule := grpcmw.ForMethod(unary, account), grpcmw.ForMethod(output,
		outputAccount)
	for name, c := range ownErrors {
		for placement, servers := range map[string][2]grpc.ServerOption{
			"under a lock": {
				grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, unaryRule)),
				grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, streamRule)),
			},
			"without a rule": {
				grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k)),
				grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k)),
			},
		} {
			t.Run(name+", "+placement, func(t *testing.T) {
				t.Parallel()
				addr, _ := serve(t, &service{
					unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
						return nil, c.err
					},
					output: func(*pb.StreamingOutputCallRequest, outputServer) error {
						return c.err
					},
				}, servers[0], servers[1])
				client := pb.NewTestServiceClient(dial(t, addr))
				var trailer metadata.MD
				_, err := client.UnaryCall(within(t, soon), request(name+placement),
					grpc.Trailer(&trailer))
				requireAnswer(t, name, err, trailer)
				stream, err := client.StreamingOutputCall(within(t, soon),
					outputRequest(name+placement))
				require.NoError(t, err)
				err = last(stream)
				requireAnswer(t, name, err, stream.Trailer())
			})
		}
	}
}

func requireAnswer(t *testing.T, name string, err error, trailer metadata.MD) {
	t.Helper()
	c := ownErrors[name]
	v := verdictOf(t, err)
	assert.Equal(t, verdict{c.want.code, c.want.reason, v.retryIn}, v)
	words := status.Convert(err).Proto().String() + trailer.String()
	assert.NotContains(t, words, told)
	assert.NotContains(t, words, "pid 4711")
	if c.message != "" {
		assert.Equal(t, c.message, status.Convert(err).Message())
	}
	switch pushback := trailer.Get("grpc-retry-pushback-ms"); {
	case c.want.reason == grpcmw.ReasonLost:
		assert.Equal(t, []string{"-1"}, pushback)
	case c.pushback:
		assert.Equal(t, []string{fmt.Sprint(v.retryIn.Milliseconds())}, pushback)
		assert.Positive(t, v.retryIn)
	default:
		assert.Empty(t, pushback)
	}
}

// Respond is for handlers that have no interceptor of ours around them.
func TestRespond(t *testing.T) {
	t.Parallel()
	for name, c := range ownErrors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, _ := serve(t,
				&service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse,
					error,
				) {
					err := grpcmw.Respond(ctx, c.err)
					assert.ErrorIs(t, err, c.err, "nothing is masked")
					return nil, err
				}})
			var trailer metadata.MD
			_, err := pb.NewTestServiceClient(dial(t, addr)).UnaryCall(within(t, soon),
				request("a1"), grpc.Trailer(&trailer))
			requireAnswer(t, name, err, trailer)
		})
	}
	require.NoError(t, grpcmw.Respond(t.Context(), nil))
}

// A handler that does respond is not answered for a second time: two trailers would keep clients
// from coming back.
func TestRespondInsideOfAnInterceptor(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	for name, wrap := range map[string]string{"as it is": "%w", "wrapped": "transfer: %w"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := unaryServer(t, k,
				&service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse,
					error,
				) {
					return nil, fmt.Errorf(wrap, grpcmw.Respond(ctx, lockError(renewer.ErrHeld)))
				}}, grpcmw.ForMethod(unary, account))
			var trailer metadata.MD
			_, err := client.UnaryCall(within(t, soon), request(name), grpc.Trailer(&trailer))
			assert.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
			assert.Equal(t, []string{fmt.Sprint(verdictOf(t, err).retryIn.Milliseconds())},
				trailer.Get("grpc-retry-pushback-ms"))
		})
	}
}

// The interceptor's options hold for what its handlers return.
func TestAHandlersOwnRefusalByTheOptions(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	client := unaryServer(t, k,
		&service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return nil, lockError(renewer.ErrHeld)
		}}, grpcmw.RetryIn(20*time.Second))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	v := verdictOf(t, err)
	require.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v)
	require.GreaterOrEqual(t, v.retryIn, 10*time.Second)
}

// What is said around another server's refusal goes; its status stays, details and all.
func TestAnotherServersRefusalKeepsItsDetails(t *testing.T) {
	t.Parallel()
	remote, err := status.New(codes.Aborted, "lockbeat: another call has the lock").WithDetails(
		&errdetails.ErrorInfo{Reason: grpcmw.ReasonBusy, Domain: grpcmw.Domain})
	require.NoError(t, err)
	v := verdictOf(t, grpcmw.Respond(t.Context(), fmt.Errorf("calling the bank: %w", remote.Err())))
	require.Equal(t, toldBusy, v)
}
