package grpcmw_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A lost lock goes on giving its token: 0 would be taken for no lock at all,
// and send none.
func TestInjectFenceAfterALoss(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		err := do(t.Context(), func(ctx context.Context) error {
			want := strconv.FormatInt(lockmw.Fence(ctx), 10)
			b.store.Delete("a1")
			<-ctx.Done()
			md, _ := metadata.FromOutgoingContext(grpcmw.InjectFence(ctx))
			assert.Equal(t, []string{want}, md.Get("lockbeat-fence"))
			return context.Cause(ctx)
		})
		require.Equal(t, lost, verdictOf(t, err))
	})
}

// A gateway copies the metadata that came with a call. What an outsider has
// made up must not go along as if it were the gateway's own lock's.
func TestInjectFence(t *testing.T) {
	t.Parallel()
	other := with(t.Context(), "other", "x")
	forged := metadata.NewOutgoingContext(t.Context(),
		metadata.MD{"other": {"x"}, "Lockbeat-Fence": {"1", "2"}})
	for _, c := range []struct {
		ctx   context.Context
		fence int64
		want  metadata.MD
	}{
		{t.Context(), 0, nil},
		{t.Context(), 7, metadata.MD{"lockbeat-fence": {"7"}}},
		{other, 0, metadata.MD{"other": {"x"}}},
		{forged, 0, metadata.MD{"other": {"x"}}},
		{forged, 7, metadata.MD{"other": {"x"}, "lockbeat-fence": {"7"}}},
	} {
		ctx := c.ctx
		if c.fence > 0 {
			ctx = adapter.WithFence(ctx, c.fence)
		}
		got, _ := metadata.FromOutgoingContext(grpcmw.InjectFence(ctx))
		require.Equal(t, c.want, got)
	}
	was, _ := metadata.FromOutgoingContext(forged)
	require.Equal(t, []string{"1", "2"}, was.Get("lockbeat-fence"), "the caller's own stays as it is")
}

// Unless it is asked for, no token is believed. A call's own lock wins over the
// token that came with it, whichever interceptor is further out.
func TestTokensThatComeWithACall(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	var fence, own int64
	var came []string
	look := func(ctx context.Context) {
		fence, own = lockmw.Fence(ctx), lockmw.FenceOf(ctx, "a1")
		came = metadata.ValueFromIncomingContext(ctx, "lockbeat-fence")
		assert.Equal(t, []string{"x"}, metadata.ValueFromIncomingContext(ctx, "other"))
	}
	s := &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			look(ctx)
			return &pb.SimpleResponse{}, nil
		},
		output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) error {
			look(stream.Context())
			return nil
		},
	}
	accept, strip := grpcmw.AcceptFence(), grpcmw.StripFence()
	for name, c := range map[string]struct {
		opts  []grpcmw.Option // of interceptors in a chain; nil: the rule
		check func() bool
	}{
		"not asked for": {nil, func() bool { return fence == 0 && len(came) == 1 }},
		"stripped":      {[]grpcmw.Option{strip}, func() bool { return fence == 0 && came == nil }},
		"accepted":      {[]grpcmw.Option{accept}, func() bool { return fence == 7 }},
		"token, lock":   {[]grpcmw.Option{accept, nil}, func() bool { return fence == own && own > 7 }},
		"lock, token":   {[]grpcmw.Option{nil, accept}, func() bool { return fence == own && own > 7 }},
	} {
		var unaries []grpc.UnaryServerInterceptor
		var streams []grpc.StreamServerInterceptor
		for _, o := range c.opts {
			onUnary, onStream := o, o
			if o == nil {
				onUnary = grpcmw.ForMethod(unary, account)
				onStream = grpcmw.ForMethod(output, outputAccount)
			}
			unaries = append(unaries, grpcmw.UnaryServerInterceptor(k, onUnary))
			streams = append(streams, grpcmw.StreamServerInterceptor(k, onStream))
		}
		client, end := serve(t, s, nil, grpc.ChainUnaryInterceptor(unaries...),
			grpc.ChainStreamInterceptor(streams...))
		ctx := with(within(t, soon), "other", "x", "Lockbeat-Fence", "7")
		_, err := client.UnaryCall(ctx, request("a1"))
		require.NoError(t, err, name)
		require.True(t, c.check(), name)
		fence, own, came = 0, 0, nil
		stream, err := client.StreamingOutputCall(ctx, outputRequest("a1"))
		require.NoError(t, err)
		require.NoError(t, last(stream), name)
		require.True(t, c.check(), name)
		end()
	}
}

// A token is either taken whole or refused. Two are none, even if they agree.
func FuzzAcceptFence(f *testing.F) {
	for _, seed := range []string{
		"1", "0", "-1", "+1", "01", "9007199254740991", "9007199254740992", "9223372036854775807",
		"9223372036854775808", "", " 1", "1\x00", "１", "1,2", "1e3", "0x1",
	} {
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(2))
	}
	f.Fuzz(func(t *testing.T, value string, times uint8) {
		in := grpcmw.UnaryServerInterceptor(newKeeper(t, memory.New()), grpcmw.AcceptFence())
		came := metadata.NewIncomingContext(t.Context(),
			metadata.MD{"lockbeat-fence": slices.Repeat([]string{value}, int(times))})
		fence := int64(-1)
		_, err := in(came, nil, &grpc.UnaryServerInfo{FullMethod: unary},
			func(ctx context.Context, _ any) (any, error) {
				fence = lockmw.Fence(ctx)
				return nil, nil
			})
		switch {
		case err != nil:
			require.Equal(t, verdict{code: codes.InvalidArgument}, verdictOf(t, err))
			require.Less(t, len(err.Error()), 200, "an outsider's words stay out of logs")
			require.Negative(t, fence, "it did not run")
		case times == 0:
			require.Zero(t, fence)
		default:
			require.EqualValues(t, 1, times)
			require.Positive(t, fence)
			require.Less(t, fence, int64(1<<53))
			require.Equal(t, value, strconv.FormatInt(fence, 10))
		}
	})
}
