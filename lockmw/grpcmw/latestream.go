package grpcmw

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// lateStream is a stream whose lock's key is in its first message. It is opened
// when that is sent: a server begins to work when a stream is opened, and
// should not do so without the lock. What is received before waits for that.
type lateStream struct {
	ctx   context.Context
	conn  *grpc.ClientConn // nil if there is none, as with some channels inside a process
	opts  []grpc.CallOption
	enter func(first any) (*hold, *callError)
	open  func(*hold) (*clientStream, error)

	claimed atomic.Bool     // somebody is about to settle the rest
	pending context.Context // ends when that is done
	settled context.CancelFunc
	unwatch func() bool
	stream  *clientStream // nil if err is not
	err     error         // why the stream will never be open
}

func newLateStream(
	ctx context.Context, conn *grpc.ClientConn, opts []grpc.CallOption,
	enter func(any) (*hold, *callError), open func(*hold) (*clientStream, error),
) *lateStream {
	s := &lateStream{ctx: ctx, conn: conn, opts: opts, enter: enter, open: open}
	s.pending, s.settled = context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	defer close(watched)
	s.unwatch = context.AfterFunc(ctx, func() {
		<-watched // ctx may have ended already
		if !s.claim() {
			return
		}
		if loss := lossIn(ctx); loss != nil { // of the lock that the stream was to be opened under
			s.never(lostError(loss, nil))
		} else {
			s.never(status.FromContextError(ctx.Err()).Err())
		}
	})
	return s
}

// claim tells whether it is the caller's to settle what becomes of the stream.
func (s *lateStream) claim() bool { return !s.claimed.Swap(true) }

// settle is called once, after claim.
func (s *lateStream) settle(stream *clientStream, err error) {
	s.stream, s.err = stream, err
	s.unwatch()
	s.settled()
}

// never settles that gRPC will not get to see the stream, and says so
// to those who expect to hear from gRPC.
func (s *lateStream) never(err error) {
	for _, o := range s.opts {
		if o, ok := o.(grpc.OnFinishCallOption); ok {
			o.OnFinish(err)
		}
	}
	s.settle(nil, err)
}

// begin takes the lock by the first message and opens the stream.
func (s *lateStream) begin(first any) {
	var h *hold
	var stream *clientStream
	var err error = ended("the stream was not opened, for a panic")
	// Deferred, so that a panic of a key function leaves nobody waiting.
	defer func() {
		if h == nil {
			s.never(err)
		} else {
			s.settle(stream, err)
		}
	}()
	h, refused := s.enter(first)
	if refused != nil {
		err = refused
		return
	}
	stream, err = s.open(h)
}

// await waits until it is settled what becomes of the stream.
func (s *lateStream) await() (*clientStream, error) {
	for s.conn != nil && s.pending.Err() == nil {
		state := s.conn.GetState()
		if state == connectivity.Shutdown {
			if s.claim() {
				s.never(status.Error(codes.Canceled, "lockbeat: the connection was closed before "+
					"the stream's first message"))
			}
			break
		}
		if !s.conn.WaitForStateChange(s.pending, state) {
			break
		}
	}
	<-s.pending.Done()
	return s.stream, s.err
}

// now is the stream if it is open.
func (s *lateStream) now() *clientStream {
	if s.pending.Err() == nil {
		return nil
	}
	return s.stream
}

// SendMsg takes the lock and opens the stream, the first time.
func (s *lateStream) SendMsg(m any) error {
	if s.claim() {
		s.begin(m)
	}
	stream, err := s.await()
	if err != nil {
		return err
	}
	return stream.SendMsg(m)
}

// RecvMsg waits until the stream is open.
func (s *lateStream) RecvMsg(m any) error {
	stream, err := s.await()
	if err != nil {
		return err
	}
	return stream.RecvMsg(m)
}

// Header waits until the stream is open.
func (s *lateStream) Header() (metadata.MD, error) {
	stream, err := s.await()
	if err != nil {
		return nil, err
	}
	return stream.Header()
}

// CloseSend before the first message is the end: there is no key.
func (s *lateStream) CloseSend() error {
	if s.claim() {
		s.never(badKey("the stream was closed without a message, which would have had its key",
			nil))
	}
	if stream, err := s.await(); err == nil {
		return stream.CloseSend()
	}
	return nil // as always: RecvMsg tells
}

// Trailer is that of the stream, once it is open.
func (s *lateStream) Trailer() metadata.MD {
	if stream := s.now(); stream != nil {
		return stream.Trailer()
	}
	return nil
}

// Context is that of the stream, once it is open.
func (s *lateStream) Context() context.Context {
	if stream := s.now(); stream != nil {
		return stream.Context()
	}
	return s.ctx
}
