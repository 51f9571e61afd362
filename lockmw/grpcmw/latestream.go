package grpcmw

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// lateStream is a stream whose lock's key is in its first message. It is opened when that is sent:
// a server begins to work when a stream is opened, and the lock's fencing token goes along in the
// metadata that open it. What is received before waits for that.
type lateStream struct {
	ctx   context.Context
	conn  *grpc.ClientConn // nil if there is none, as with some channels inside a process
	opts  []grpc.CallOption
	enter func(first any) (*hold, *callError)
	open  func(*hold) (*clientStream, error)

	once    sync.Once // the first to send, to close, or to notice an end decides
	decided context.Context
	decide  context.CancelFunc // ends decided
	unwatch func() bool
	stream  *clientStream // nil if err is not; both are set once decided has ended
	err     error         // why the stream will never be open
}

func newLateStream(
	ctx context.Context, conn *grpc.ClientConn, opts []grpc.CallOption,
	enter func(any) (*hold, *callError), open func(*hold) (*clientStream, error),
) *lateStream {
	s := &lateStream{ctx: ctx, conn: conn, opts: opts, enter: enter, open: open}
	s.decided, s.decide = context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	defer close(watched)
	s.unwatch = context.AfterFunc(ctx, func() {
		<-watched // ctx may have ended already
		s.never(func() error {
			if loss := lossIn(ctx); loss != nil { // of a lock around the call
				return lostError(loss, nil)
			}
			return status.FromContextError(ctx.Err()).Err()
		})
	})
	return s
}

// never decides that the stream will not be opened, and why, unless something was decided before.
func (s *lateStream) never(why func() error) {
	s.once.Do(func() {
		s.err = why()
		s.finish()
	})
}

// begin takes the lock by the first message and opens the stream, unless something was decided
// before.
func (s *lateStream) begin(first any) {
	s.once.Do(func() {
		// Deferred, so that after a panic of a key function no caller waits for ever.
		defer func() {
			if s.stream == nil && s.err == nil {
				s.err = ended("the stream was not opened, for a panic")
			}
			s.finish()
		}()
		h, refused := s.enter(first)
		if refused != nil {
			s.err = refused
			return
		}
		s.opts = nil // gRPC calls their OnFinish
		s.stream, s.err = s.open(h)
	})
}

// finish lets all callers go on. Before, it tells the call options of an end of which gRPC knows
// nothing.
func (s *lateStream) finish() {
	for _, o := range s.opts {
		if o, ok := o.(grpc.OnFinishCallOption); ok {
			o.OnFinish(s.err)
		}
	}
	s.unwatch()
	s.decide()
}

// await waits until it is decided what becomes of the stream, and returns that.
func (s *lateStream) await() (*clientStream, error) {
	for s.conn != nil && s.decided.Err() == nil {
		state := s.conn.GetState()
		if state == connectivity.Shutdown {
			s.never(func() error {
				return status.Error(codes.Canceled,
					"lockbeat: the connection was closed before the "+
						"stream's first message")
			})
			break
		}
		if !s.conn.WaitForStateChange(s.decided, state) {
			break
		}
	}
	<-s.decided.Done()
	return s.stream, s.err
}

// now is the stream if it is open.
func (s *lateStream) now() *clientStream {
	if s.decided.Err() == nil {
		return nil
	}
	return s.stream
}

// SendMsg takes the lock and opens the stream, the first time.
func (s *lateStream) SendMsg(m any) error {
	s.begin(m)
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
	s.never(func() error {
		return badKey("the stream was closed without a message, which would have had its key", nil)
	})
	if stream, err := s.await(); err == nil {
		return stream.CloseSend()
	}
	return nil // as always: RecvMsg returns the error
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
