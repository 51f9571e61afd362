package grpcmw_test

import (
	"context"
	"fmt"
	"net"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// bank is the service of the examples.
type bank struct {
	pb.UnimplementedTestServiceServer

	busy func() // called while a call is under way
}

func (b bank) UnaryCall(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	fmt.Printf("transfer from %s\n", r.GetPayload().GetBody())
	if b.busy != nil {
		b.busy()
	}
	return &pb.SimpleResponse{}, nil
}

// listen serves b on loopback, and connects to it.
func listen(b bank, opts ...grpc.ServerOption) (client pb.TestServiceClient, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(server, b)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	return pb.NewTestServiceClient(conn), func() {
		_ = conn.Close()
		server.Stop()
		<-served
	}
}

// Transfers from one account run one after the other, on whichever
// server. Here a second one will not wait for the first.
func ExampleUnaryServerInterceptor() {
	// in production redisstore in place of memory
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	began, end := make(chan struct{}), make(chan struct{})
	client, stop := listen(
		bank{busy: func() {
			close(began)
			<-end
		}},
		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(keeper, lockmw.Refuse(),
			grpcmw.ForMethod(pb.TestService_UnaryCall_FullMethodName,
				func(r *pb.SimpleRequest) string {
					return lockmw.Key("account", string(r.GetPayload().GetBody()))
				}))))
	defer stop()

	transfer := &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("DE02")}}
	first := make(chan error)
	go func() {
		_, err := client.UnaryCall(context.Background(), transfer)
		first <- err
	}()
	<-began
	_, err = client.UnaryCall(context.Background(), transfer)
	fmt.Println(status.Code(err))
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Println(info.GetReason() == "LOCK_BUSY")
		}
	}
	close(end)
	fmt.Println(<-first)
	// Output:
	// transfer from DE02
	// Aborted
	// true
	// <nil>
}

// What a service writes for its caller carries the token of the lock that the
// caller has taken around its call.
func ExampleInjectFence() {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()
	var there int64
	look := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		there = lockmw.Fence(ctx)
		return handler(ctx, req)
	}
	client, stop := listen(bank{}, grpc.ChainUnaryInterceptor(
		grpcmw.UnaryServerInterceptor(keeper, grpcmw.AcceptFence()), look))
	defer stop()

	_, err = lockmw.Do(context.Background(), keeper, "report",
		func(ctx context.Context) (any, error) {
			_, err := client.UnaryCall(grpcmw.InjectFence(ctx), &pb.SimpleRequest{
				Payload: &pb.Payload{Body: []byte("DE02")},
			})
			fmt.Println(there == lockmw.Fence(ctx))
			return nil, err
		})
	fmt.Println(err)
	// Output:
	// transfer from DE02
	// true
	// <nil>
}

// A client that does not know whether its transfer came through sends it again.
func ExampleIdempotent() {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()
	// in production an account that an interceptor further out has checked
	byUser := func(ctx context.Context) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, "user"), ",")
	}
	client, stop := listen(bank{}, grpc.UnaryInterceptor(grpcmw.Idempotent(keeper,
		grpcmw.IdempotentConfig{
			Caller: byUser, Methods: []string{pb.TestService_UnaryCall_FullMethodName}, Scope: "bank",
		})))
	defer stop()
	ctx := metadata.AppendToOutgoingContext(context.Background(),
		"user", "ann", "idempotency-key", "8e03978e")
	for _, account := range []string{"DE02", "DE02", "DE03"} {
		var header metadata.MD
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{
			Payload: &pb.Payload{Body: []byte(account)},
		}, grpc.Header(&header))
		fmt.Println(status.Code(err), header.Get("idempotent-replayed"))
	}
	// Output:
	// transfer from DE02
	// OK []
	// OK [true]
	// FailedPrecondition []
}
