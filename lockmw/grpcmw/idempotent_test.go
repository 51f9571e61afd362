package grpcmw_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// shop is a server with Idempotent, whose one handler a test sets. It counts its runs.
type shop struct {
	guard  grpc.UnaryServerInterceptor
	handle func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error)
	runs   int
}

func newShop(k *renewer.Keeper, opts ...grpcmw.IdempotentOption) *shop {
	s := &shop{guard: grpcmw.Idempotent(k, callerOf, []string{unary}, opts...)}
	s.handle = func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{Username: account(r)}, nil
	}
	return s
}

// order makes a call with a key. It returns what was ordered, by the reply.
func (s *shop) order(ctx context.Context, key, item string) (string, error) {
	return s.call(withKey(ctx, key), unary, request(item))
}

func (s *shop) call(ctx context.Context, method string, req any) (string, error) {
	reply, err := s.guard(ctx, req, &grpc.UnaryServerInfo{FullMethod: method},
		func(ctx context.Context, req any) (any, error) {
			s.runs++
			return s.handle(ctx, req.(*pb.SimpleRequest))
		})
	if err != nil {
		return "", err
	}
	return reply.(*pb.SimpleResponse).GetUsername(), nil
}

// withKey is ann's call with a key.
func withKey(ctx context.Context, key string) context.Context {
	return metadata.NewIncomingContext(by(ctx, "ann"),
		metadata.Pairs(grpcmw.IdempotencyKey, key))
}

func TestACallIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		for range 3 {
			got, err := s.order(t.Context(), "k", "pen")
			require.NoError(t, err)
			require.Equal(t, "pen", got)
		}
		require.Equal(t, 1, s.runs)

		got, err := s.call(metadata.NewIncomingContext(by(t.Context(), "bob"),
			metadata.Pairs(grpcmw.IdempotencyKey, "k")), unary, request("pen"))
		require.NoError(t, err)
		require.Equal(t, "pen", got)
		require.Equal(t, 2, s.runs, "another caller's key")

		other := newShop(b.k, grpcmw.Scope("billing"))
		_, err = other.order(t.Context(), "k", "ink")
		require.NoError(t, err)
		require.Equal(t, 1, other.runs, "another scope")

		elapse(grpcmw.DefaultKeepAnswer + time.Second)
		_, err = s.order(t.Context(), "k", "ink")
		require.NoError(t, err)
		require.Equal(t, 3, s.runs, "as new")
	})
}

// The client tells a stored reply from a new one, and its message is whole.
func TestRepliesOverAConnection(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	reply := &pb.SimpleResponse{
		Username: "pen", Payload: &pb.Payload{Body: []byte{0, 255}},
		GrpclbRouteType: pb.GrpclbRouteType_GRPCLB_ROUTE_TYPE_BACKEND,
	}
	runs := 0
	addr, _ := serve(t, &service{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			runs++
			return reply, nil
		},
	}, grpc.UnaryInterceptor(grpcmw.Idempotent(k, func(context.Context) string { return "ann" },
		[]string{unary})))
	client := pb.NewTestServiceClient(dial(t, addr))
	for _, replayed := range [][]string{nil, {"true"}} {
		var header metadata.MD
		got, err := client.UnaryCall(metadata.AppendToOutgoingContext(within(t, soon),
			grpcmw.IdempotencyKey, `"k"`), request("pen"), grpc.Header(&header))
		require.NoError(t, err)
		assert.True(t, proto.Equal(reply, got))
		assert.Equal(t, replayed, header.Get(grpcmw.ReplayedKey))
	}
	assert.Equal(t, 1, runs)
	_, err := client.EmptyCall(within(t, soon), &pb.Empty{})
	assert.Equal(t, codes.Unimplemented, status.Code(err), "it is not guarded")
}

func TestCallsThatGetNoReply(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		_, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		reused := verdict{code: codes.FailedPrecondition, reason: grpcmw.ReasonReused}
		invalid := verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey}
		anonymous := metadata.NewIncomingContext(t.Context(),
			metadata.Pairs(grpcmw.IdempotencyKey, "k"))
		twice := metadata.NewIncomingContext(by(t.Context(), "ann"),
			metadata.Pairs(grpcmw.IdempotencyKey, "a", grpcmw.IdempotencyKey, "b"))
		for name, c := range map[string]struct {
			ctx  context.Context
			req  any
			want verdict
		}{
			"another request":  {withKey(t.Context(), "k"), request("ink"), reused},
			"no key":           {by(t.Context(), "ann"), request("pen"), invalid},
			"an empty key":     {withKey(t.Context(), ""), request("pen"), invalid},
			"two keys":         {twice, request("pen"), invalid},
			"no caller":        {anonymous, request("pen"), invalid},
			"no proto message": {withKey(t.Context(), "k"), 7, verdict{code: codes.Internal}},
		} {
			_, err := s.call(c.ctx, unary, c.req)
			assert.Equal(t, c.want, verdictOf(t, err), name)
			assert.NotContains(t, err.Error(), "idempotency:", name)
		}
		require.Equal(t, 1, s.runs)

		optional := newShop(b.k, grpcmw.KeyOptional())
		for range 2 {
			_, err := optional.call(by(t.Context(), "ann"), unary, request("pen"))
			require.NoError(t, err)
		}
		require.Equal(t, 2, optional.runs)
	})
}

// The fields of a map come in another order each time that a request is encoded.
func TestARequestWithAMapIsTheSame(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		fields := make(map[string]any)
		for i := range 50 {
			fields[strconv.Itoa(i)] = i
		}
		for range 5 {
			req, err := structpb.NewStruct(fields)
			require.NoError(t, err)
			_, err = s.guard(withKey(t.Context(), "k"), req, &grpc.UnaryServerInfo{FullMethod: unary},
				func(context.Context, any) (any, error) {
					s.runs++
					return &pb.SimpleResponse{}, nil
				})
			require.NoError(t, err)
		}
		require.Equal(t, 1, s.runs)
	})
}

// Clients' retry policies read when to come back in the trailer.
func TestRefusalsSayWhenToComeBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		client, end := inMemory(t, &service{
			unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return nil, lockError(renewer.ErrHeld)
			},
		}, nil, grpc.UnaryInterceptor(grpcmw.Idempotent(b.k, func(context.Context) string { return "ann" },
			[]string{unary})))
		defer end()
		for _, store := range []script.Step{script.Pass(), script.Fail(errors.New("down"))} {
			b.store.Default(script.Acquire, store)
			var trailer metadata.MD
			_, err := client.UnaryCall(metadata.AppendToOutgoingContext(t.Context(),
				grpcmw.IdempotencyKey, "k"), request("pen"), grpc.Trailer(&trailer))
			assert.Positive(t, verdictOf(t, err).retryIn)
			assert.Len(t, trailer.Get("grpc-retry-pushback-ms"), 1)
		}
	})
}

// The same key for another method is another call, even if the request is the same.
func TestTheMethodIsPartOfTheCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		cacheable := pb.TestService_CacheableUnaryCall_FullMethodName
		s.guard = grpcmw.Idempotent(b.k, callerOf, []string{unary, cacheable})
		_, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		_, err = s.call(withKey(t.Context(), "k"), cacheable, request("pen"))
		require.Equal(t, grpcmw.ReasonReused, verdictOf(t, err).reason)
		_, err = s.call(withKey(t.Context(), "k"), unary, request("ink"))
		require.Equal(t, grpcmw.ReasonReused, verdictOf(t, err).reason)
	})
}

func TestACallThatIsUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		refuses := newShop(b.k)
		waits := newShop(b.k, grpcmw.WaitForAnswer(time.Hour))
		refuses.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			elapse(10 * time.Second)
			return &pb.SimpleResponse{Username: "first"}, nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := refuses.order(t.Context(), "k", "pen")
			done <- err
		}()
		synctest.Wait()
		busy := func(s *shop, ctx context.Context, after time.Duration) {
			t.Helper()
			begun := time.Now()
			_, err := s.order(ctx, "k", "pen")
			v := verdictOf(t, err)
			require.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v)
			require.Positive(t, v.retryIn)
			require.Equal(t, after, time.Since(begun))
		}
		busy(refuses, t.Context(), 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		busy(waits, ctx, 750*time.Millisecond)

		got, err := waits.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		require.Equal(t, "first", got)
		require.Equal(t, 10*time.Second, b.passed())
		require.NoError(t, <-done)
		require.Zero(t, waits.runs)
	})
}

// A client that gives up and comes again must find its call done, and not cut off half-way.
func TestAHandlerOutlivesItsCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts  []grpcmw.IdempotentOption
		bound time.Duration
	}{
		"default":         {nil, grpcmw.DefaultFinishWithin},
		"longer":          {[]grpcmw.IdempotentOption{grpcmw.FinishWithin(time.Hour)}, time.Hour},
		"with its client": {[]grpcmw.IdempotentOption{grpcmw.FinishWithin(0)}, 0},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			all := grpcmw.KeepCode(func(codes.Code) bool { return true })
			s := newShop(b.k, append(c.opts, all)...)
			s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				_, bounded := ctx.Deadline()
				assert.False(t, bounded, name)
				assert.Equal(t, "ann", callerOf(ctx), name)
				<-ctx.Done()
				assert.Equal(t, time.Second+c.bound, b.passed(), name)
				return nil, ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.order(ctx, "k", "pen")
			assert.Error(t, err, name)
			assert.Equal(t, 1, s.runs, name)

			s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return &pb.SimpleResponse{}, nil
			}
			_, err = s.order(t.Context(), "k", "pen")
			assert.NoError(t, err, name)
			assert.Equal(t, 2, s.runs, "%s: it has not answered", name)
		})
	}
}
