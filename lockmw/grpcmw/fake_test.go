package grpcmw_test

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// fakeServerStream is a stream without a transport, for tests of
// exact instants. What it does is up to two functions.
type fakeServerStream struct {
	grpc.ServerStream

	ctx  context.Context
	recv func(m any) error
	send func(m any) error

	mu      sync.Mutex
	trailer metadata.MD
}

func (s *fakeServerStream) Context() context.Context { return s.ctx }
func (s *fakeServerStream) RecvMsg(m any) error      { return s.recv(m) }
func (s *fakeServerStream) SendMsg(m any) error      { return s.send(m) }

func (s *fakeServerStream) SetTrailer(md metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
}

// fakeClientStream is the same for a client.
type fakeClientStream struct {
	grpc.ClientStream

	header func() (metadata.MD, error)
	recv   func(m any) error
	send   func(m any) error

	ctx    context.Context // what it was opened with
	finish func(error)     // the interceptor's OnFinish
}

func (s *fakeClientStream) Header() (metadata.MD, error) { return s.header() }
func (s *fakeClientStream) RecvMsg(m any) error          { return s.recv(m) }
func (s *fakeClientStream) SendMsg(m any) error          { return s.send(m) }

// open is a grpc.Streamer.
func (s *fakeClientStream) open(
	ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s.ctx, s.finish = ctx, opts[len(opts)-1].(grpc.OnFinishCallOption).OnFinish
	return s, nil
}
