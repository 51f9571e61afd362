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
