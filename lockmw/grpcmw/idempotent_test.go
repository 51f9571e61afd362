package grpcmw_test

import (
	"context"
	"strconv"
	"strings"
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

func ann(context.Context) string { return "ann" }

// shop is a server with Idempotent, whose one handler a test sets. It counts
// its runs.
type shop struct {
	guard  grpc.UnaryServerInterceptor
	handle unaryHandler
	runs   int
}

func newShop(k *renewer.Keeper, edit ...func(*grpcmw.IdempotentConfig)) *shop {
	c := grpcmw.IdempotentConfig{
		Caller:  callerOf,
		Methods: []string{unary, pb.TestService_CacheableUnaryCall_FullMethodName},
	}
	for _, f := range edit {
		f(&c)
	}
	s := &shop{guard: grpcmw.Idempotent(k, c)}
	s.handle = func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{Username: account(r)}, nil
	}
	return s
}

// order makes ann's call with a key. It returns what was ordered, by the reply.
func (s *shop) order(ctx context.Context, key, item string) (string, error) {
	return s.call(incoming(by(ctx, "ann"), "idempotency-key", key), unary, request(item))
}

func (s *shop) call(ctx context.Context, method string, req any) (string, error) {
	reply, err := s.guard(ctx, req, &grpc.UnaryServerInfo{FullMethod: method},
		func(ctx context.Context, req any) (any, error) {
			s.runs++
			r, _ := req.(*pb.SimpleRequest)
			return s.handle(ctx, r)
		})
	if err != nil {
		return "", err
	}
	return reply.(*pb.SimpleResponse).GetUsername(), nil
}

func TestACallIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		for _, item := range []string{"pen", ""} { // an empty reply is one too
			for range 3 {
				got, err := s.order(t.Context(), "k"+item, item)
				require.NoError(t, err)
				require.Equal(t, item, got)
			}
		}
		require.Equal(t, 2, s.runs)

		_, err := s.call(incoming(by(t.Context(), "bob"), "idempotency-key", "k"), unary,
			request("ink"))
		require.NoError(t, err)
		require.Equal(t, 3, s.runs, "another caller's key")
		other := newShop(b.k, func(c *grpcmw.IdempotentConfig) { c.Scope = "billing" })
		_, err = other.order(t.Context(), "k", "ink")
		require.NoError(t, err)
		require.Equal(t, 1, other.runs, "another scope")

		elapse(24*time.Hour + time.Second)
		_, err = s.order(t.Context(), "k", "ink")
		require.NoError(t, err)
		require.Equal(t, 4, s.runs, "as new")
	})
}

// The client tells a stored reply from a new one, and its message is whole. An
// error is none: the next call runs the handler again. Clients' retry policies
// read when to come back in the trailer.
func TestRepliesOverAConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		reply := &pb.SimpleResponse{
			Username: "pen", Payload: &pb.Payload{Body: []byte{0, 255}},
			GrpclbRouteType: pb.GrpclbRouteType_GRPCLB_ROUTE_TYPE_BACKEND,
		}
		ends := []error{errHandler, lockError(renewer.ErrBusy), nil}
		client, end := serve(t, &service{
			unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				err := ends[0]
				ends = ends[1:]
				return reply, err
			},
		}, nil, grpc.UnaryInterceptor(grpcmw.Idempotent(b.k, grpcmw.IdempotentConfig{
			Caller: ann, Methods: []string{unary},
		})))
		defer end()
		call := func() (header, trailer metadata.MD, err error) {
			got, err := client.UnaryCall(with(t.Context(), "idempotency-key", `"k"`),
				request("pen"), grpc.Header(&header), grpc.Trailer(&trailer))
			assert.Equal(t, err == nil, proto.Equal(reply, got))
			return header, trailer, err
		}
		_, _, err := call()
		assert.Equal(t, codes.NotFound, status.Code(err))
		for _, store := range []script.Step{script.Fail(errDown), script.Pass()} {
			b.store.Default(script.Acquire, store)
			_, trailer, err := call()
			assert.Positive(t, verdictOf(t, err).retryIn)
			assert.Len(t, trailer.Get(pushback), 1)
		}
		for _, replayed := range [][]string{nil, {"true"}} {
			header, _, err := call()
			assert.NoError(t, err)
			assert.Equal(t, replayed, header.Get("idempotent-replayed"))
		}
		_, err = client.EmptyCall(t.Context(), &pb.Empty{})
		assert.Equal(t, codes.Unimplemented, status.Code(err), "it is not guarded")
	})
}

func TestCallsThatGetNoReply(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		_, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		reused := verdict{code: codes.FailedPrecondition, reason: "IDEMPOTENCY_KEY_REUSED"}
		of := func(caller string, pairs ...string) context.Context {
			return incoming(by(t.Context(), caller), pairs...)
		}
		const key, cacheable = "idempotency-key", pb.TestService_CacheableUnaryCall_FullMethodName
		for _, c := range []struct {
			name   string
			ctx    context.Context
			method string
			req    any
			want   verdict
		}{
			{"another request", of("ann", key, "k"), unary, request("ink"), reused},
			{"another method", of("ann", key, "k"), cacheable, request("pen"), reused},
			{"no key", of("ann"), unary, request("pen"), invalid},
			{"an empty key", of("ann", key, ""), unary, request("pen"), invalid},
			{"two keys", of("ann", key, "a", key, "b"), unary, request("pen"), invalid},
			{"no caller", of("", key, "k"), unary, request("pen"), invalid},
			{"no proto message", of("ann", key, "k"), unary, 7, verdict{code: codes.Internal}},
		} {
			_, err := s.call(c.ctx, c.method, c.req)
			assert.Equal(t, c.want, verdictOf(t, err), c.name)
			assert.NotContains(t, err.Error(), "idempotency:", c.name)
		}
		require.Equal(t, 1, s.runs)

		optional := newShop(b.k, func(c *grpcmw.IdempotentConfig) { c.KeyOptional = true })
		for range 2 {
			_, err := optional.call(of("ann"), unary, request("pen"))
			require.NoError(t, err)
		}
		require.Equal(t, 2, optional.runs)
	})
}

// The fields of a map come in another order each time that a request is
// encoded.
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
			_, err = s.call(incoming(by(t.Context(), "ann"), "idempotency-key", "k"), unary, req)
			require.NoError(t, err)
		}
		require.Equal(t, 1, s.runs)
	})
}

func TestACallThatIsUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		refuses := newShop(b.k, func(c *grpcmw.IdempotentConfig) { c.MaxRunningPerCaller = 1 })
		waits := newShop(b.k, func(c *grpcmw.IdempotentConfig) { c.WaitForAnswer = time.Hour })
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
		_, err := refuses.order(t.Context(), "k", "pen")
		requireBusy(t, err)
		_, err = refuses.order(t.Context(), "another", "pen")
		requireRefused(t, codes.ResourceExhausted, "CALLER_QUOTA", err)
		require.Zero(t, b.passed())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = waits.order(ctx, "k", "pen")
		requireBusy(t, err)
		require.Equal(t, 750*time.Millisecond, b.passed())

		got, err := waits.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		require.Equal(t, "first", got)
		require.Equal(t, 10*time.Second, b.passed())
		require.NoError(t, <-done)
		require.Zero(t, waits.runs)
		_, err = refuses.order(t.Context(), "another", "pen")
		require.NoError(t, err)
	})
}

// A handler outlives its call, by FinishWithin at most, with its values and
// without its deadline.
func TestAHandlerOutlivesItsCall(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, -1: 0} {
		inBubble(t, func(t *testing.T, b *bubble) {
			s := newShop(b.k, func(c *grpcmw.IdempotentConfig) {
				c.FinishWithin, c.EndWithClient = max(given, 0), given < 0
			})
			s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				assert.Equal(t, "ann", callerOf(ctx))
				<-ctx.Done()
				assert.Equal(t, time.Second+want, b.passed())
				return nil, ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.order(ctx, "k", "pen")
			assert.Error(t, err)
			assert.Equal(t, 1, s.runs)
		})
	}
}

// An error under a lost lock is no answer. A reply without one counts, unless
// another call with the key has taken over: then all get that one's.
func TestACallThatLosesItsLock(t *testing.T) {
	t.Parallel()
	for _, own := range []error{errHandler, nil} {
		inBubble(t, func(t *testing.T, b *bubble) {
			s := newShop(b.k)
			s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				b.store.Delete(b.store.Calls(script.Acquire)[0].Claims[0].Name)
				<-ctx.Done()
				s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					return &pb.SimpleResponse{Username: "second"}, own
				}
				_, err := s.order(context.WithoutCancel(t.Context()), "k", "pen")
				assert.ErrorIs(t, err, own)
				return &pb.SimpleResponse{Username: "first"}, own
			}
			got, err := s.order(t.Context(), "k", "pen")
			if own == nil {
				require.NoError(t, err)
				require.Equal(t, "second", got)
				return
			}
			require.Equal(t, lost, verdictOf(t, err))
			require.ErrorIs(t, err, errHandler)
		})
	}
}

func TestRepliesTooLargeToKeep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		sealed := [][]byte{[]byte(strings.Repeat("k", 32))}
		s := newShop(b.k, func(c *grpcmw.IdempotentConfig) { c.MaxAnswer, c.SealKeys = 100, sealed })
		for _, size := range []int{90, 1000} { // too large as it is stored, and as it is
			long := strings.Repeat("x", size)
			got, err := s.order(t.Context(), long[:size/10], long)
			require.NoError(t, err)
			require.Equal(t, long, got, "it reaches whom it is for")
			_, err = s.order(t.Context(), long[:size/10], long)
			require.Equal(t, verdict{code: codes.AlreadyExists, reason: "IDEMPOTENCY_NOT_KEPT"},
				verdictOf(t, err))
		}
		require.Equal(t, 2, s.runs)
	})
}

func TestSealedReplies(t *testing.T) {
	t.Parallel()
	o := new(faultLog)
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k, func(c *grpcmw.IdempotentConfig) {
			c.SealKeys = [][]byte{[]byte(strings.Repeat("k", 32))}
		})
		for range 2 {
			got, err := s.order(t.Context(), "k", told)
			require.NoError(t, err)
			require.Equal(t, told, got)
		}
		require.Equal(t, 1, s.runs)
		name := b.store.Calls(script.Acquire)[0].Claims[0].Name
		_, err := newShop(b.k).order(t.Context(), "k", told)
		require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err), "without the key")

		b.store.PutRecord(name, strings.Replace(b.store.RecordOf(name), "lbsealed1", "lbsealed2", 1))
		for range 2 {
			_, err := s.order(t.Context(), "k", told)
			require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
		}
		require.Equal(t, 1, s.runs, "it is not carried out again")
		require.Len(t, o.faults, 2, "the operator is told, once by each")
	}, func(c *renewer.Config) { c.Observer = o })
}
