package grpcmw

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// StreamClientInterceptor opens streams of streaming methods under the locks
// that the rules among opts name; other methods pass through. See the
// package's text for the outcomes, and for when a stream is locked. It panics
// if k is nil, on two rules for one method, and on a rule for a unary method.
//
// The lock is freed when gRPC says that the stream has finished (grpc.OnFinish).
// When it is lost the stream's context ends, and SendMsg, RecvMsg and Header fail.
func StreamClientInterceptor(k *renewer.Keeper, opts ...ClientOption) grpc.StreamClientInterceptor {
	set := newSettings()
	for _, o := range opts {
		o.client(&set)
	}
	in := newInterceptor("StreamClientInterceptor", k, set, true, outgoing)
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		r := in.rules[method]
		if r == nil {
			return streamer(in.pass(ctx), desc, cc, method, opts...)
		}
		enter := func(first any) (*hold, *callError) { return in.enterFor(ctx, r, first) }
		open := func(h *hold) (*clientStream, error) {
			return openStream(h, opts, func(opts []grpc.CallOption) (grpc.ClientStream, error) {
				return streamer(in.pass(h.ctx), desc, cc, method, opts...)
			})
		}
		if r.message != nil {
			return newLateStream(ctx, cc, opts, enter, open), nil
		}
		h, refused := enter(nil)
		if refused != nil {
			return nil, refused
		}
		s, err := open(h)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// openStream opens a stream under a lock that is held, and frees that if it can't, also for a panic
// or an exit in an interceptor further in.
func openStream(
	h *hold, opts []grpc.CallOption, open func([]grpc.CallOption) (grpc.ClientStream, error),
) (*clientStream, error) {
	// After the caller's own OnFinish, which are still part of the operation.
	opts = append(slices.Clip(opts), grpc.OnFinish(func(error) { _ = h.end() }))
	var stream grpc.ClientStream
	err := unwind.Then(func() (err error) {
		stream, err = open(opts)
		return err
	}, func(err error) error {
		if err == nil {
			return nil
		}
		if lost := h.settle(err); lost != nil {
			return lost
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &clientStream{ClientStream: stream, hold: h}, nil
}

// clientStream is a stream whose lock is held until it finishes.
type clientStream struct {
	grpc.ClientStream

	hold *hold
}

// Header fails once the lock is lost.
func (s *clientStream) Header() (metadata.MD, error) {
	if lost := s.hold.failure(); lost != nil {
		return nil, lost
	}
	md, err := s.ClientStream.Header()
	if md == nil {
		err = s.failed(err)
	}
	return md, err
}

// SendMsg fails once the lock is lost.
func (s *clientStream) SendMsg(m any) error {
	if lost := s.hold.failure(); lost != nil {
		return lost
	}
	err := s.ClientStream.SendMsg(m)
	if err != nil {
		err = s.failed(err)
	}
	return err
}

// RecvMsg fails once the lock is lost, unless the stream has come to a good end before.
func (s *clientStream) RecvMsg(m any) error {
	if lost := s.hold.failure(); lost != nil {
		return lost
	}
	switch err := s.ClientStream.RecvMsg(m); {
	case err != nil && !errors.Is(err, io.EOF):
		return s.failed(err)
	case s.hold.over.Load() && s.hold.strict:
		return s.failed(err)
	default:
		return err
	}
}

// failed is what became of an operation whose own outcome is err, if the lock's loss may be why.
func (s *clientStream) failed(err error) error {
	lost := s.hold.failure()
	switch {
	case lost == nil:
		return err
	case err == nil, errors.Is(err, io.EOF): // which must not be found in an error
		return lost
	default:
		return lost.with(err)
	}
}
