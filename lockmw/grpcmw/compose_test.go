package grpcmw_test

import (
	"context"
	"testing"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// selector decides call by call whether our interceptors are asked at all.
func TestSelector(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	defer hold(t, k, "a1")()
	held := store.Calls(script.Acquire)
	urgent := false
	match := selector.MatchFunc(func(_ context.Context, c interceptors.CallMeta) bool {
		return !urgent && c.Service != healthpb.Health_ServiceDesc.ServiceName
	})
	addr, _ := serve(t, &service{output: func(*pb.StreamingOutputCallRequest, outputServer) error {
		return nil
	}},
		grpc.ChainUnaryInterceptor(recovery.UnaryServerInterceptor(),
			selector.UnaryServerInterceptor(grpcmw.UnaryServerInterceptor(k,
				grpcmw.ForMethod(unary, account), grpcmw.Refuse()), match)),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(),
			selector.StreamServerInterceptor(grpcmw.StreamServerInterceptor(k,
				grpcmw.ForMethod(output, outputAccount), grpcmw.Refuse()), match)))
	client := pb.NewTestServiceClient(dial(t, addr))
	for _, urgent = range []bool{false, true} {
		_, err := client.UnaryCall(within(t, soon), request("a1"))
		stream, openErr := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
		require.NoError(t, openErr)
		streamErr := last(stream)
		if urgent {
			require.NoError(t, err)
			require.NoError(t, streamErr)
		} else {
			require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
			require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, streamErr).reason)
		}
	}
	require.Len(t, store.Calls(script.Acquire), len(held),
		"those that were refused stood in line here")
}

// Who monitors a server and who explores it are not kept waiting.
func TestHealthAndReflectionBesideALockedService(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{},
		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k,
			grpcmw.ForMethod(duplex, outputAccount))))
	conn := dial(t, addr)
	health, err := healthpb.NewHealthClient(conn).Check(within(t, soon),
		&healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, health.GetStatus())
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(within(t,
		soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}))
	reply, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, reply.GetListServicesResponse().GetService(), 4)
	require.NoError(t, stream.CloseSend())
	require.NoError(t, last(stream))
	require.Empty(t, store.Calls(script.Acquire))
}

// recovery, further out, makes an Internal of a panic; the lock is free by then.
func TestRecovery(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			panic("boom")
		},
		output: func(*pb.StreamingOutputCallRequest, outputServer) error { panic("boom") },
	},
		grpc.ChainUnaryInterceptor(recovery.UnaryServerInterceptor(),
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(),
			grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(output, outputAccount))))
	client := pb.NewTestServiceClient(dial(t, addr))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.Equal(t, codes.Unknown, verdictOf(t, err).code)
	require.ErrorContains(t, err, "boom")
	stream, err := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
	require.NoError(t, err)
	require.ErrorContains(t, last(stream), "boom")
	free(t, store, "a1")
	require.Len(t, store.Calls(script.Release), 2)
}

// spanOf is what of a span does not change from run to run.
type spanOf struct {
	name   string
	kind   trace.SpanKind
	status otelcodes.Code
	events int
}

func TestSpansAreAsWithoutUs(t *testing.T) {
	t.Parallel()
	without := traced(t, nil, nil)
	k, _ := scripted(t)
	with := traced(t,
		[]grpc.ServerOption{
			grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k,
				grpcmw.ForMethod(unary, account))),
			grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k,
				grpcmw.ForMethod(duplex, outputAccount))),
		},
		[]grpc.DialOption{
			grpc.WithUnaryInterceptor(grpcmw.UnaryClientInterceptor(newKeeper(t, script.New()),
				grpcmw.ForMethod(unary, account))),
			grpc.WithStreamInterceptor(grpcmw.StreamClientInterceptor(newKeeper(t, script.New()),
				grpcmw.ForMethod(duplex, outputAccount))),
		})
	require.NotEmpty(t, without)
	require.ElementsMatch(t, without, with)
}

// traced makes a call and a stream through otelgrpc's handlers, and returns their spans.
func traced(t *testing.T, server []grpc.ServerOption, client []grpc.DialOption) []spanOf {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	options := []otelgrpc.Option{
		otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithMessageEvents(otelgrpc.ReceivedEvents, otelgrpc.SentEvents),
	}
	inHandler := func(ctx context.Context) {
		span := trace.SpanFromContext(ctx)
		assert.True(t, span.IsRecording(), "the handler's context carries the server's span")
		assert.True(t, span.(sdktrace.ReadOnlySpan).Parent().IsRemote(),
			"whose parent is the client's")
	}
	addr, grpcServer := serve(t, &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			inHandler(ctx)
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(stream duplexServer) error {
			_, err := stream.Recv()
			inHandler(stream.Context())
			if err != nil {
				return err
			}
			return errHandler
		},
	}, append(server, grpc.StatsHandler(otelgrpc.NewServerHandler(options...)))...)
	c := pb.NewTestServiceClient(dial(t, addr,
		append(client, grpc.WithStatsHandler(otelgrpc.NewClientHandler(options...)))...))
	_, err := c.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	stream, err := c.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.Equal(t, codes.NotFound, verdictOf(t, last(stream)).code)
	grpcServer.GracefulStop() // the server's spans have ended
	var spans []spanOf
	for _, s := range exporter.GetSpans() {
		spans = append(spans, spanOf{s.Name, s.SpanKind, s.Status.Code, len(s.Events)})
	}
	require.Len(t, spans, 4)
	return spans
}

// Locks in a chain: two interceptors, one lock each, the outer one's first.
func TestTwoLocksForOneCall(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			assert.True(t, lockmw.Held(ctx, unary))
			assert.True(t, lockmw.Held(ctx, "a1"))
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(stream duplexServer) error {
			_, err := stream.Recv()
			assert.NoError(t, err)
			assert.True(t, lockmw.Held(stream.Context(), duplex))
			assert.True(t, lockmw.Held(stream.Context(), "a1"))
			lose(store, duplex)
			_, err = stream.Recv()
			assert.ErrorIs(t, err, renewer.ErrLost)
			return err
		},
	},
		grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.ForWholeMethod(unary)),
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.ChainStreamInterceptor(grpcmw.StreamServerInterceptor(newKeeper(t, store, fast),
			grpcmw.ForWholeMethod(duplex)),
			grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount))))
	client := pb.NewTestServiceClient(dial(t, addr))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
		verdictOf(t, last(stream)))
	free(t, store, "a1")
}
