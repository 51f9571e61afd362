package libraries_test

import (
	"context"
	"testing"

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
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// spanOf is what of a span does not change from run to run.
type spanOf struct {
	name   string
	kind   trace.SpanKind
	status otelcodes.Code
	events int
}

func TestSpansOfGRPCAreAsWithoutUs(t *testing.T) {
	t.Parallel()
	without := traced(t)
	k, _ := scripted(t)
	with := traced(t,
		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k,
			grpcmw.ForMethod(duplex, outputAccount))))
	require.NotEmpty(t, without)
	require.ElementsMatch(t, without, with)
}

// traced makes a call and a stream through otelgrpc's handlers, and returns their spans.
func traced(t *testing.T, server ...grpc.ServerOption) []spanOf {
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
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(options...))))
	_, err := c.UnaryCall(t.Context(), request("a1"))
	require.NoError(t, err)
	stream, err := c.FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.Equal(t, codes.NotFound, status.Code(last(stream)))
	grpcServer.GracefulStop() // the server's spans have ended
	var spans []spanOf
	for _, s := range exporter.GetSpans() {
		spans = append(spans, spanOf{s.Name, s.SpanKind, s.Status.Code, len(s.Events)})
	}
	require.Len(t, spans, 4)
	return spans
}
