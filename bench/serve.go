package main

import (
	"context"
	"math"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// The protocols, by the names that the tables show.
const (
	overHTTP = "HTTP"
	overGRPC = "gRPC"
)

// longWait is how long a request stands in line at most: longer than any line of the load takes.
const longWait = 30 * time.Second

// service is one bank, served by one protocol on a loopback port of its own.
type service struct {
	*bank

	protocol string
	addr     string
	close    func()
}

// serve serves a bank: with a keeper each transfer under the lock of its account, with nil without.
func serve(protocol string, b *bank, k *renewer.Keeper) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{bank: b, protocol: protocol, addr: listener.Addr().String()}
	run, closeServer := newHTTP(b, k)
	if protocol == overGRPC {
		run, closeServer = newGRPC(b, k)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(listener) // it ends by close
	}()
	s.close = func() {
		closeServer()
		<-ended
	}
	return s, nil
}

func newHTTP(b *bank, k *renewer.Keeper) (run func(net.Listener) error, closeServer func()) {
	var handler http.Handler = http.HandlerFunc(b.post)
	if k != nil {
		handler = httpmw.Exclusive(k, httpmw.PathValue("id"), httpmw.Wait(longWait))(handler)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: longWait}
	return server.Serve, func() { _ = server.Close() } // no request is served any more
}

func (b *bank) post(w http.ResponseWriter, r *http.Request) {
	if err := b.transfer(r.Context(), r.PathValue("id")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func newGRPC(b *bank, k *renewer.Keeper) (run func(net.Listener) error, closeServer func()) {
	var opts []grpc.ServerOption
	if k != nil {
		opts = append(opts, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k,
			grpcmw.Wait(longWait), grpcmw.MaxWaiters(math.MaxInt),
			grpcmw.ForMethod(testgrpc.TestService_UnaryCall_FullMethodName,
				func(r *testgrpc.SimpleRequest) string {
					return lockmw.Key("account", accountOf(r))
				}))))
	}
	server := grpc.NewServer(opts...)
	testgrpc.RegisterTestServiceServer(server, &teller{bank: b})
	return server.Serve, server.Stop
}

// teller is a bank by gRPC, as a service that gRPC brings along for
// tests. The payload is the account.
type teller struct {
	testgrpc.UnimplementedTestServiceServer

	bank *bank
}

func accountOf(r *testgrpc.SimpleRequest) string { return string(r.GetPayload().GetBody()) }

// UnaryCall is a transfer.
func (t *teller) UnaryCall(
	ctx context.Context, r *testgrpc.SimpleRequest,
) (*testgrpc.SimpleResponse, error) {
	if err := t.bank.transfer(ctx, accountOf(r)); err != nil {
		return nil, err
	}
	return new(testgrpc.SimpleResponse), nil
}
