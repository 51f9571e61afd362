package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// StreamServerInterceptor runs the handlers of streaming methods under the
// locks that their rules name. It panics on a rule for a unary method, and as
// [UnaryServerInterceptor] does.
func StreamServerInterceptor(k *renewer.Keeper, opts ...Option) grpc.StreamServerInterceptor {
	in := newInterceptor("StreamServerInterceptor", k, opts, true)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler,
	) error {
		ctx, err := in.receiveFence(stream.Context())
		if err != nil {
			return err
		}
		if m, locked := in.methods[info.FullMethod]; locked {
			return in.serveStream(ctx, m, srv, stream, handler)
		}
		if in.accept || in.strip {
			stream = contextStream{stream, ctx}
		}
		return Respond(ctx, handler(srv, stream))
	}
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream

	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

func (in *interceptor) serveStream(
	ctx context.Context, m lockedMethod, srv any, stream grpc.ServerStream,
	handler grpc.StreamHandler,
) (err error) {
	first, err := m.firstMessage(ctx, stream)
	if err != nil {
		return Respond(ctx, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var cut *callError
	failed := in.run(ctx, m, first, func(ctx context.Context) error {
		s := &serverStream{ServerStream: stream, ctx: ctx, first: first}
		defer s.watch(in.silence, cancel)()
		err = handler(srv, s)
		if cut = s.cut(err); cut != nil {
			err = cut
		}
		return err
	})
	if failed = cmp.Or(failed, cut, translated(err)); failed != nil {
		return failed.sent(ctx)
	}
	return err
}

// firstMessage waits for the message that the lock is taken by; it is nil if
// the client has ended its side without one. The lock of a call further out may
// be lost meanwhile.
func (r *rule) firstMessage(ctx context.Context, stream grpc.ServerStream) (proto.Message, error) {
	m := r.method.request.New().Interface()
	err := guard(ctx, func() error { return stream.RecvMsg(m) })
	switch end := errors.Is(err, io.EOF); {
	case end && r.ofMessage:
		return nil, badKey("the stream has ended without a message, which would have had its key",
			nil)
	case end:
		return nil, nil // the handler's RecvMsg gets the end again
	default:
		return m, err
	}
}

// serverStream is a stream under a lock.
type serverStream struct {
	grpc.ServerStream

	ctx   context.Context // the operation's
	first proto.Message   // which the handler has not received yet; nil if there is none

	silence
	over   atomic.Bool               // the handler has returned
	failed atomic.Pointer[callError] // why nothing passes any more
}

// Context is the operation's.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendMsg fails once the lock is lost.
func (s *serverStream) SendMsg(m any) error {
	if err := s.failure(); err != nil {
		return err
	}
	return s.during(&s.sending, func() error { return s.ServerStream.SendMsg(m) })
}

// RecvMsg fails once the lock is lost.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.failure(); err != nil {
		return err
	}
	if first := s.first; first != nil {
		s.first = nil
		return deliver(first, m)
	}
	err := s.during(&s.receiving, func() error { return s.ServerStream.RecvMsg(m) })
	if lost := s.failure(); lost != nil { // before the handler has seen the message
		return lost
	}
	return err
}

// deliver makes to, which the handler receives into, what has been received.
func deliver(received proto.Message, to any) error {
	m, ok := to.(proto.Message)
	if !ok || m.ProtoReflect().Descriptor() != received.ProtoReflect().Descriptor() {
		return misused(fmt.Sprintf("the stream's first message is %T, and is received into %T",
			received, to))
	}
	proto.Reset(m)
	proto.Merge(m, received)
	return nil
}

// failure is why nothing passes any more; nil if the lock is held. It is right
// on the first instruction after a pause of the process.
func (s *serverStream) failure() error {
	if s.over.Load() {
		return newError(codes.Canceled, "the stream's handler has returned",
			[]error{context.Canceled})
	}
	e := cutOff(s.ctx)
	if lockmw.Remaining(s.ctx) <= 0 {
		e = lostError(cmp.Or(lossIn(s.ctx), errPast), nil)
	}
	if e == nil {
		return nil
	}
	s.failed.CompareAndSwap(nil, e)
	return s.failed.Load()
}

// errPast is why an operation must stop whose context has not heard of it yet:
// the process was paused, and the engine is about to look at its clock.
var errPast = fmt.Errorf("%w: by the clock, its time is over", renewer.ErrLost)

// cut takes the place of err, which the handler has returned, if messages were
// held back: whatever the handler made of that, its work is not whole. It is
// nil if err stands.
func (s *serverStream) cut(err error) *callError {
	failed := s.failed.Load()
	if failed == nil && errors.Is(context.Cause(s.ctx), ErrSilence) {
		failed = silentError()
	}
	if failed == nil || err == nil || errors.Is(err, failed) {
		return failed
	}
	return failed.with(err)
}
