package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// told is what a lock's error says to operators, and no remote caller may read.
const told = "iban-DE02"

var (
	toldBusy = verdict{code: codes.Aborted, reason: "LOCK_BUSY"}
	toldDown = verdict{code: codes.Unavailable, reason: "LOCK_UNAVAILABLE"}

	errResponded = grpcmw.Respond(context.Background(), lockError(renewer.ErrBusy))
)

// ownErrors are what handlers return that use locks themselves, and what their
// callers should get to know: the words of a message that goes out as it is,
// and when to come back, or -1 if the lock was lost.
var ownErrors = map[string]struct {
	err      error
	want     verdict
	comeBack bool
	message  string
}{
	"held": {lockError(renewer.ErrBusy), toldBusy, true, ""},
	"skipped": {
		fmt.Errorf("%w: %w", lockmw.ErrSkipped, lockError(renewer.ErrBusy)), toldBusy, true, "",
	},
	"down":      {fmt.Errorf("transfer: %w", lockError(renewer.ErrUnavailable)), toldDown, true, ""},
	"lost":      {&renewer.LostError{Name: told}, lost, true, ""},
	"lost, too": {errors.Join(errHandler, &renewer.LostError{Name: told}), lost, true, ""},
	"name":      {lockError(renewer.ErrName), invalid, false, ""},
	"misuse": {
		fmt.Errorf("%w: once.Do takes the lock on %s", renewer.ErrConfig, told),
		verdict{code: codes.Internal},
		false, "",
	},
	"cancelled": {lockError(context.Canceled), verdict{code: codes.Canceled}, false, ""},
	"run once": {&once.Error{
		Kind: once.ErrAttemptsExhausted, Name: told,
		Last: store.Holder{Node: told, PID: 4711}, Err: lockError(renewer.ErrBusy),
	}, verdict{code: codes.Unknown}, false, ""},
	"taken apart": {
		errors.New("transfer: " + lockError(renewer.ErrBusy).Error()),
		verdict{code: codes.Unknown},
		false, "",
	},
	"taken apart, beside a status": {
		fmt.Errorf("%w: %s", errHandler, lockError(renewer.ErrBusy).Error()),
		verdict{code: codes.NotFound},
		false, "no such account",
	},
	"held, beside a status": {
		fmt.Errorf("%w: %w", errHandler, lockError(renewer.ErrBusy)),
		verdict{code: codes.NotFound},
		false, "no such account",
	},
	"a status of which it is a cause": {
		ownStatusError{lockError(renewer.ErrBusy)},
		verdict{code: codes.FailedPrecondition},
		false, "not now",
	},
	"a status in an error": {
		fmt.Errorf("transfer: %w", errHandler),
		verdict{code: codes.NotFound},
		false, "transfer: " + errHandler.Error(),
	},
	"another server's refusal": {
		fmt.Errorf("calling the bank: %w", status.Convert(errResponded).Err()), toldBusy, false, "",
	},
	"none of a lock":       {errors.New("no funds"), verdict{code: codes.Unknown}, false, "no funds"},
	"responded to already": {errResponded, toldBusy, false, ""},
	"responded, wrapped":   {fmt.Errorf("%s: %w", told, errResponded), toldBusy, false, ""},
}

func lockError(kind error) error {
	return &renewer.Error{
		Op: "acquire", Name: told, Kind: kind,
		Holder: store.Holder{Node: told, PID: 4711}, HeldFor: time.Second,
	}
}

// ownStatusError is a handler's error type with a status of its own.
type ownStatusError struct{ error }

func (e ownStatusError) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, "not now")
}
func (e ownStatusError) Unwrap() error { return e.error }

// A handler's inner Do used to go out as codes.Unknown, with the lock's name
// and its holder's host and pid. Respond is for handlers that have no
// interceptor of ours around them.
func TestAHandlersOwnLockErrorLeavesWithoutItsName(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	for placement, c := range map[string]struct {
		opts    []grpcmw.Option
		respond bool
	}{
		"under a lock":   {[]grpcmw.Option{grpcmw.ForMethod(unary, account)}, false},
		"without a rule": {nil, false},
		"with Respond":   {nil, true},
	} {
		s := &service{
			unary: func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				err := ownErrors[account(r)].err
				if c.respond {
					answer := grpcmw.Respond(ctx, err)
					assert.ErrorIs(t, answer, err, "nothing is masked")
					return nil, answer // not answered for a second time
				}
				return nil, err
			},
			output: func(r *pb.StreamingOutputCallRequest, _ outputServer) error {
				return ownErrors[outputAccount(r)].err
			},
		}
		rule := grpcmw.ForMethod(output, outputAccount)
		client, end := serve(t, s, nil,
			grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, c.opts...)),
			grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, rule)))
		for name := range ownErrors {
			t.Log(name, placement)
			var trailer metadata.MD
			_, err := client.UnaryCall(within(t, soon), request(name), grpc.Trailer(&trailer))
			requireAnswer(t, name, err, trailer)
			stream, err := client.StreamingOutputCall(within(t, soon), outputRequest(name))
			require.NoError(t, err)
			err = last(stream)
			requireAnswer(t, name, err, stream.Trailer())
		}
		end()
	}
	require.NoError(t, grpcmw.Respond(t.Context(), nil))
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
	switch said := trailer.Get(pushback); {
	case c.want.reason == "LOCK_LOST":
		assert.Equal(t, []string{"-1"}, said)
	case c.comeBack:
		assert.Equal(t, []string{fmt.Sprint(v.retryIn.Milliseconds())}, said)
		assert.Positive(t, v.retryIn)
	default:
		assert.Empty(t, said)
	}
}
