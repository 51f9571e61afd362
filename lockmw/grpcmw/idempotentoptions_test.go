package grpcmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// By default an error says that nothing was done.
func TestWhichRepliesAreKept(t *testing.T) {
	t.Parallel()
	all := grpcmw.KeepCode(func(codes.Code) bool { return true })
	detailed, err := status.New(codes.FailedPrecondition, "declined").WithDetails(
		&errdetails.ErrorInfo{Reason: "DECLINED", Domain: grpcmw.Domain})
	require.NoError(t, err)
	later, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		reply error
		opts  []grpcmw.IdempotentOption
		runs  int
	}{
		"an error":                   {detailed.Err(), nil, 2},
		"an error with effects":      {detailed.Err(), []grpcmw.IdempotentOption{all}, 1},
		"a context's error":          {context.DeadlineExceeded, []grpcmw.IdempotentOption{all}, 1},
		"an error without a status":  {errHandler, []grpcmw.IdempotentOption{all}, 1},
		"one that says when to come": {later.Err(), []grpcmw.IdempotentOption{all}, 2},
		"a lock's": {
			lockError(renewer.ErrHeld),
			[]grpcmw.IdempotentOption{all},
			2,
		},
		"the loss of a lock further in": {
			grpcmw.Respond(t.Context(), &renewer.LostError{Reason: renewer.ReasonExpired}),
			[]grpcmw.IdempotentOption{all},
			2,
		},
		"a refusal further in": {errResponded, []grpcmw.IdempotentOption{all}, 2},
		"success": {
			nil,
			[]grpcmw.IdempotentOption{grpcmw.KeepCode(func(c codes.Code) bool { return c != 0 })},
			2,
		},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			s := newShop(b.k, c.opts...)
			s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return &pb.SimpleResponse{}, c.reply
			}
			_, first := s.order(t.Context(), "k", "pen")
			_, again := s.order(t.Context(), "k", "pen")
			assert.Equal(t, c.runs, s.runs, name)
			if c.runs == 1 {
				assert.True(t, proto.Equal(sent(first), sent(again)), name)
			}
			if first != nil {
				assert.NotContains(t, status.Convert(first).Message(), told, name)
			}
		})
	}
}

// sent is what gRPC sends of a handler's error.
func sent(err error) proto.Message {
	if st, ok := status.FromError(err); ok {
		return st.Proto()
	}
	return status.FromContextError(err).Proto()
}

func TestARefusalOfALockFurtherInIsNotStored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k, grpcmw.KeepCode(func(codes.Code) bool { return true }))
		outer, inner := s.guard, grpcmw.UnaryServerInterceptor(b.k,
			grpcmw.ForMethod(unary, account), grpcmw.Refuse())
		s.guard = func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			handler grpc.UnaryHandler,
		) (any, error) {
			return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
				return inner(ctx, req, info, handler)
			})
		}
		release := hold(t, b.k, "a1")
		_, err := s.order(t.Context(), "k", "a1")
		require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
		release()
		_, err = s.order(t.Context(), "k", "a1")
		require.NoError(t, err)
		require.Equal(t, 1, s.runs)
	})
}

func TestRepliesTooLargeToKeep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k, grpcmw.MaxAnswer(100))
		for _, size := range []int{99, 1000} { // too large as it is stored, and as it is
			long := strings.Repeat("x", size)
			got, err := s.order(t.Context(), long[:size/10], long)
			require.NoError(t, err)
			require.Equal(t, long, got, "it reaches whom it is for")
			_, err = s.order(t.Context(), long[:size/10], long)
			require.Equal(t, verdict{code: codes.AlreadyExists, reason: grpcmw.ReasonNotKept},
				verdictOf(t, err))
		}
		require.Equal(t, 2, s.runs)
	})
}

func TestACallersQuota(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k, grpcmw.MaxStored(1))
		_, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		_, err = s.order(t.Context(), "k2", "pen")
		v := verdictOf(t, err)
		require.Equal(t, verdict{codes.ResourceExhausted, grpcmw.ReasonStored, v.retryIn}, v)
		require.Positive(t, v.retryIn)
		_, err = s.order(t.Context(), "k", "pen")
		require.NoError(t, err, "it is stored")
		require.Equal(t, 1, s.runs)
	})
}

func TestSealedReplies(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", 32))
	o := new(faultLog)
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k, grpcmw.Seal(key))
		for range 2 {
			got, err := s.order(t.Context(), "k", told)
			require.NoError(t, err)
			require.Equal(t, told, got)
		}
		require.Equal(t, 1, s.runs)
		name := b.store.Calls(script.Acquire)[0].Claims[0].Name
		require.NotContains(t, b.store.RecordOf(name), "message")

		b.store.PutRecord(name, strings.Replace(b.store.RecordOf(name), "lbsealed1", "lbsealed2", 1))
		for range 2 {
			_, err := s.order(t.Context(), "k", told)
			require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
		}
		require.Equal(t, 1, s.runs, "it is not carried out again")
		require.Len(t, o.faults, 1, "the operator is told, once")
	}, func(c *renewer.Config) { c.Observer = o })
}

type faultLog struct {
	renewer.NopObserver

	faults []renewer.Fault
}

func (o *faultLog) Fault(f renewer.Fault) { o.faults = append(o.faults, f) }

func TestIdempotentThatCantBeMeant(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	methods := []string{unary}
	for want, f := range map[string]func(){
		"needs a keeper":       func() { grpcmw.Idempotent(nil, callerOf, methods) },
		"says who calls":       func() { grpcmw.Idempotent(k, nil, methods) },
		"the methods":          func() { grpcmw.Idempotent(k, callerOf, nil) },
		"has no method":        func() { grpcmw.Idempotent(k, callerOf, []string{unary + "s"}) },
		"a streaming method":   func() { grpcmw.Idempotent(k, callerOf, []string{duplex}) },
		"generated protobuf":   func() { grpcmw.Idempotent(k, callerOf, []string{"/a.B/C"}) },
		"Keep is 1s":           func() { grpcmw.Idempotent(k, callerOf, methods, grpcmw.KeepAnswer(time.Second)) },
		"WaitForAnswer(0s)":    func() { grpcmw.WaitForAnswer(0) },
		"FinishWithin(-1s)":    func() { grpcmw.FinishWithin(-time.Second) },
		"MaxAnswer(0)":         func() { grpcmw.MaxAnswer(0) },
		"MaxStored(0)":         func() { grpcmw.MaxStored(0) },
		"KeepCode needs":       func() { grpcmw.KeepCode(nil) },
		"grpcmw.Seal needs":    func() { grpcmw.Seal() },
		"of grpcmw.Seal has 3": func() { grpcmw.Seal([]byte("abc")) },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				assert.Contains(t, text, "lockbeat: ")
				assert.Contains(t, text, want)
			}()
			f()
		}()
	}
}
