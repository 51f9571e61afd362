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
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func incoming(t *testing.T, values ...string) context.Context {
	t.Helper()
	md := metadata.MD{}
	md.Append(grpcmw.FenceKey, values...)
	return metadata.NewIncomingContext(t.Context(), md)
}

func TestExtractFence(t *testing.T) {
	t.Parallel()
	ctx, err := grpcmw.ExtractFence(incoming(t, "1767225600000001"))
	require.NoError(t, err)
	require.EqualValues(t, 1767225600000001, lockmw.Fence(ctx))

	for _, none := range []context.Context{
		t.Context(),
		metadata.NewIncomingContext(t.Context(), metadata.MD{"other": {"1"}}),
	} {
		ctx, err := grpcmw.ExtractFence(none)
		require.NoError(t, err)
		require.Equal(t, none, ctx)
	}
	for _, bad := range [][]string{
		{"0"},
		{"-1"},
		{""},
		{"+1"},
		{"01"},
		{"1 "},
		{"1.0"},
		{"0x1"},
		{"1e3"},
		{"one"},
		{"9007199254740992"},
		{"9223372036854775807"},
		{"9223372036854775808"},
		{"1", "1"},
		{"1", "2"},
	} {
		in := lockmw.WithFence(incoming(t, bad...), 5)
		ctx, err := grpcmw.ExtractFence(in)
		require.Equal(t, verdict{code: codes.InvalidArgument}, verdictOf(t, err), "%q", bad)
		require.Equal(t, in, ctx)
	}
}

// A lost lock goes on giving its token: 0 would be taken for no lock at all, and send none.
func TestInjectFenceAfterALoss(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		err := caller(b.k)(t.Context(), func(ctx context.Context) error {
			want := strconv.FormatInt(lockmw.Fence(ctx), 10)
			b.store.Delete("a1")
			<-ctx.Done()
			md, _ := metadata.FromOutgoingContext(grpcmw.InjectFence(ctx))
			assert.Equal(t, []string{want}, md.Get(grpcmw.FenceKey))
			return context.Cause(ctx)
		})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
	})
}

func TestInjectFence(t *testing.T) {
	t.Parallel()
	require.Equal(t, t.Context(), grpcmw.InjectFence(t.Context()), "without a lock")
	other := metadata.AppendToOutgoingContext(t.Context(), "other", "x")
	require.Equal(t, other, grpcmw.InjectFence(other))
	sent := func(ctx context.Context) metadata.MD {
		md, _ := metadata.FromOutgoingContext(grpcmw.InjectFence(ctx))
		return md
	}
	ctx := lockmw.WithFence(t.Context(), 7)
	require.Equal(t, metadata.MD{grpcmw.FenceKey: {"7"}}, sent(ctx))
	before := metadata.Pairs("other", "x", grpcmw.FenceKey, "1", grpcmw.FenceKey, "2")
	ctx = metadata.NewOutgoingContext(ctx, before)
	require.Equal(t, metadata.MD{"other": {"x"}, grpcmw.FenceKey: {"7"}}, sent(ctx))
	require.Equal(t, []string{"1", "2"}, before.Get(grpcmw.FenceKey),
		"the caller's own stays as it is")
}

// What a service writes under its caller's lock carries that lock's token.
func TestFenceGoesAlong(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	fences := make(chan int64, 1)
	answer := func(ctx context.Context) { fences <- lockmw.Fence(ctx) }
	s := &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			answer(ctx)
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(stream duplexServer) error {
			answer(stream.Context())
			return echo(stream)
		},
	}
	rule := grpcmw.ForMethod(unary, account)
	addr, _ := serve(t, s, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k,
		grpcmw.AcceptFence(), rule)),
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, grpcmw.AcceptFence())))
	client := pb.NewTestServiceClient(dial(t, addr))

	stream, err := client.FullDuplexCall(grpcmw.InjectFence(within(t, soon)))
	require.NoError(t, err)
	require.NoError(t, drain(stream))
	require.Zero(t, <-fences, "without a lock")

	_, err = lockmw.Do(within(t, soon), k, "order", func(ctx context.Context) (any, error) {
		sent := grpcmw.InjectFence(ctx)
		stream, err := client.FullDuplexCall(sent)
		require.NoError(t, err)
		require.NoError(t, drain(stream))
		require.Equal(t, lockmw.Fence(ctx), <-fences)

		_, err = client.UnaryCall(sent, request("a1"))
		require.NoError(t, err)
		require.NotEqual(t, lockmw.Fence(ctx), <-fences, "the server's own lock is further in")
		return nil, nil
	})
	require.NoError(t, err)

	bad := metadata.AppendToOutgoingContext(within(t, soon), grpcmw.FenceKey, "-5")
	_, err = client.EmptyCall(bad, &pb.Empty{})
	require.Equal(t, codes.InvalidArgument, verdictOf(t, err).code, "also without a rule")
	stream, err = client.FullDuplexCall(bad)
	require.NoError(t, err)
	require.Equal(t, codes.InvalidArgument, verdictOf(t, drain(stream)).code)
}

// Unless it is asked for, nothing is believed.
func TestFenceIsNotAcceptedByDefault(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	client := unaryServer(t, k,
		&service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			assert.Zero(t, lockmw.Fence(ctx))
			return &pb.SimpleResponse{}, nil
		}})
	_, err := client.UnaryCall(grpcmw.InjectFence(lockmw.WithFence(within(t, soon), 7)),
		request("a1"))
	require.NoError(t, err)
}

// A gateway copies the metadata that came with a call. What an outsider has made up must not go
// along as if it were the gateway's own lock's.
func TestFenceOfTheRequestIsNotPassedOnWithoutALock(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	seen := make(chan int64, 1)
	addr, _ := serve(t, &service{unary: func(ctx context.Context,
		_ *pb.SimpleRequest,
	) (*pb.SimpleResponse, error) {
		seen <- lockmw.Fence(ctx)
		return &pb.SimpleResponse{}, nil
	}}, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.AcceptFence())))
	backend := pb.NewTestServiceClient(dial(t, addr))
	copying := metadata.NewOutgoingContext(within(t, soon),
		metadata.MD{"Lockbeat-Fence": {"7"}, "other": {"x"}})
	for _, ctx := range []context.Context{
		copying,
		metadata.AppendToOutgoingContext(t.Context(), grpcmw.FenceKey, "7", grpcmw.FenceKey, "8"),
	} {
		_, err := backend.UnaryCall(grpcmw.InjectFence(ctx), request("a1"))
		require.NoError(t, err)
		require.Zero(t, <-seen)
	}
	md, _ := metadata.FromOutgoingContext(grpcmw.InjectFence(copying))
	require.Equal(t, metadata.MD{"other": {"x"}}, md)
}

func TestFenceOfTheRequestDoesNotHideTheLocksOwn(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	check := func(ctx context.Context) {
		assert.Positive(t, lockmw.Fence(ctx))
		assert.Equal(t, lockmw.FenceOf(ctx, "a1"), lockmw.Fence(ctx))
	}
	s := &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			check(ctx)
			return &pb.SimpleResponse{}, nil
		},
		output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) error {
			check(stream.Context())
			return nil
		},
	}
	accept := []grpcmw.Option{grpcmw.AcceptFence()}
	lock := []grpcmw.Option{grpcmw.ForMethod(unary, account)}
	lockStream := []grpcmw.Option{grpcmw.ForMethod(output, outputAccount)}
	for name, order := range map[string]func(a, b grpc.ServerOption) []grpc.ServerOption{
		"lock, token": func(lock, token grpc.ServerOption) []grpc.ServerOption {
			return []grpc.ServerOption{lock, token}
		},
		"token, lock": func(lock, token grpc.ServerOption) []grpc.ServerOption {
			return []grpc.ServerOption{token, lock}
		},
	} {
		unaries := order(grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(k, lock...)),
			grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(k, accept...)))
		streams := order(grpc.ChainStreamInterceptor(grpcmw.StreamServerInterceptor(k,
			lockStream...)),
			grpc.ChainStreamInterceptor(grpcmw.StreamServerInterceptor(k, accept...)))
		addr, _ := serve(t, s, append(unaries, streams...)...)
		client := pb.NewTestServiceClient(dial(t, addr))
		for token, code := range map[string]codes.Code{
			"9007199254740991": codes.OK,
			"-1":               codes.InvalidArgument,
		} {
			ctx := metadata.AppendToOutgoingContext(within(t, soon), grpcmw.FenceKey, token)
			_, err := client.UnaryCall(ctx, request("a1"))
			require.Equal(t, code, status.Code(err), "%s: %s", name, token)
			stream, err := client.StreamingOutputCall(ctx, outputRequest("a1"))
			require.NoError(t, err)
			require.Equal(t, code, status.Code(last(stream)), "%s: %s", name, token)
		}
	}
}

func TestStripFence(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	came := make(chan []string, 1)
	look := func(ctx context.Context) {
		assert.Zero(t, lockmw.Fence(ctx))
		assert.Equal(t, []string{"x"}, metadata.ValueFromIncomingContext(ctx, "other"))
		came <- metadata.ValueFromIncomingContext(ctx, grpcmw.FenceKey)
	}
	s := &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			look(ctx)
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(stream duplexServer) error {
			look(stream.Context())
			return echo(stream)
		},
	}
	for _, opts := range [][]grpcmw.Option{{}, {grpcmw.StripFence()}} {
		addr, _ := serve(t, s, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, opts...)),
			grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, opts...)))
		client := pb.NewTestServiceClient(dial(t, addr))
		ctx := metadata.AppendToOutgoingContext(within(t, soon), "other", "x", "Lockbeat-Fence",
			"7", grpcmw.FenceKey, "no token")
		_, err := client.UnaryCall(ctx, request("a1"))
		require.NoError(t, err)
		require.Equal(t, len(opts) > 0, len(<-came) == 0)
		stream, err := client.FullDuplexCall(ctx)
		require.NoError(t, err)
		require.NoError(t, drain(stream))
		require.Equal(t, len(opts) > 0, len(<-came) == 0)
	}
	require.PanicsWithValue(t,
		"lockbeat: grpcmw.UnaryServerInterceptor has AcceptFence and StripFence: "+
			"accept tokens behind the edge of the system, strip them at the edge",
		func() { grpcmw.UnaryServerInterceptor(k, grpcmw.StripFence(), grpcmw.AcceptFence()) })
	require.Panics(t, func() {
		grpcmw.StreamServerInterceptor(k, grpcmw.AcceptFence(), grpcmw.StripFence())
	})
}

// A token is either taken whole or refused. Two are none, even if they agree.
func FuzzExtractFence(f *testing.F) {
	for _, seed := range []string{
		"1", "0", "-1", "+1", "01", "9007199254740991", "9007199254740992", "9223372036854775807",
		"9223372036854775808", "", " 1", "1\x00", "１", "1,2",
	} {
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(2))
	}
	f.Fuzz(func(t *testing.T, value string, times uint8) {
		in := metadata.NewIncomingContext(t.Context(),
			metadata.MD{grpcmw.FenceKey: slices.Repeat([]string{value}, int(times))})
		ctx, err := grpcmw.ExtractFence(in)
		if err != nil {
			require.Equal(t, codes.InvalidArgument, verdictOf(t, err).code)
			require.Less(t, len(err.Error()), 200, "an outsider's words stay out of logs")
			require.Zero(t, lockmw.Fence(ctx))
			return
		}
		if times == 0 {
			require.Zero(t, lockmw.Fence(ctx))
			return
		}
		require.EqualValues(t, 1, times)
		require.Positive(t, lockmw.Fence(ctx))
		require.Less(t, lockmw.Fence(ctx), int64(1<<53))
		require.Equal(t, value, strconv.FormatInt(lockmw.Fence(ctx), 10))
		md, _ := metadata.FromOutgoingContext(grpcmw.InjectFence(ctx))
		require.Equal(t, []string{value}, md.Get(grpcmw.FenceKey))
	})
}
