package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// call makes one transfer. ok reports whether it succeeded, and answer how it was answered.
type call func(ctx context.Context, account string) (ok bool, answer string)

// grpcConnections share the load of a generator: one would be a lock
// that all of its requests contend for.
const grpcConnections = 4

// connect returns how to make a job's requests, and what ends its connections.
func connect(j job) (one call, leave func(), err error) {
	switch j.Protocol {
	case overHTTP:
		one, leave = connectHTTP(j)
		return one, leave, nil
	case overGRPC:
		return connectGRPC(j)
	default:
		return nil, nil, fmt.Errorf("no protocol is called %q", j.Protocol)
	}
}

// connectHTTP keeps a connection alive for each worker.
func connectHTTP(j job) (call, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: j.Workers}
	client := &http.Client{Transport: transport}
	return func(ctx context.Context, account string) (bool, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost,
			"http://"+j.Addr+"/accounts/"+account+"/transfer", http.NoBody)
		if err != nil {
			return false, err.Error()
		}
		response, err := client.Do(request)
		if err != nil {
			return false, unanswered(err)
		}
		_, err = io.Copy(io.Discard, response.Body) // so that the connection serves the next
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return false, unanswered(err)
		}
		return response.StatusCode == http.StatusNoContent, response.Status
	}, transport.CloseIdleConnections
}

// unanswered says what went wrong without addresses, which would make each one another.
func unanswered(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func connectGRPC(j job) (one call, leave func(), err error) {
	var connections []*grpc.ClientConn
	leave = func() {
		for _, c := range connections {
			_ = c.Close() // it is no more asked for anything
		}
	}
	var clients []testgrpc.TestServiceClient
	for range min(j.Workers, grpcConnections) {
		c, err := grpc.NewClient(j.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDisableRetry())
		if err != nil {
			leave()
			return nil, nil, err
		}
		connections, clients = append(connections, c), append(clients,
			testgrpc.NewTestServiceClient(c))
	}
	var turn atomic.Uint64
	return func(ctx context.Context, account string) (bool, string) {
		client := clients[turn.Add(1)%uint64(len(clients))]
		_, err := client.UnaryCall(ctx,
			&testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte(account)}})
		code := status.Code(err)
		return code == codes.OK, code.String()
	}, leave, nil
}
