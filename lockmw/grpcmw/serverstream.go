package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// StreamServerInterceptor runs the handlers of streaming methods under the locks that the rules among opts name; other methods pass
// through, their streams as they are. See the package's text for the outcomes, and for when a stream is locked. It panics if k is
// nil, on two rules for one method, and on a rule for a unary method.
//
// The lock is held until the handler returns, panics or exits. Once it is lost, SendMsg and RecvMsg fail, those under way too.
// An error of a lock that a handler returns, with a rule or without, is answered as [Respond] does.
func StreamServerInterceptor(k *renewer.Keeper, opts ...ServerOption) grpc.StreamServerInterceptor {
	set := newSettings()
	for _, o := range opts {
		o.server(&set)
	}
	in := newInterceptor("StreamServerInterceptor", k, set, true, incoming)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, err := in.accept(stream.Context())
		if err != nil {
			return err
		}
		if r := in.rules[info.FullMethod]; r != nil {
			return in.serveStream(ctx, r, srv, stream, handler)
		}
		if in.fence {
			stream = contextStream{stream, ctx}
		}
		return in.answer(stream.SetTrailer, handler(srv, stream))
	}
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream

	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

func (in *interceptor) serveStream(ctx context.Context, r *rule, srv any, stream grpc.ServerStream, handler grpc.StreamHandler) (err error) {
	s := &serverStream{ServerStream: stream, in: in, rule: r}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	// Deferred, so that a panic and runtime.Goexit free the lock too, and pass through.
	defer func() {
		if failed := cmp.Or(s.settle(err), in.own(err)); failed != nil {
			stream.SetTrailer(failed.trailer())
			err = failed
		}
	}()
	if r.message == nil {
		if err := s.lock(nil); err != nil {
			return err
		}
	}
	err = lockmw.ErrUnwound // unless it returns
	return handler(srv, s)
}

// serverStream is a stream under a lock, which it takes by its first message if the key is in that.
type serverStream struct {
	grpc.ServerStream

	in   *interceptor
	rule *rule

	// What the handler sees until the lock is held. It ends when the lock is lost too, since a handler asks for its context first of
	// all and then keeps it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	hold   *hold       // nil until the lock is held
	failed *callError  // why it never will be
	over   bool        // the handler has returned
	unlink func() bool // takes ctx from hold
}

// Context is the operation's, once the lock is held.
func (s *serverStream) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil {
		return s.hold.ctx
	}
	return s.ctx
}

// SendMsg fails before the lock is held, and once it is lost.
func (s *serverStream) SendMsg(m any) error {
	h, err := s.held()
	if err != nil {
		return err
	}
	if h == nil {
		return s.fail(misused(fmt.Sprintf("%s sends before it has received the first message, which has the key of its lock: "+
			"receive first, or use ForMetadata", s.rule.method)))
	}
	if lost := h.failure(); lost != nil {
		return lost
	}
	return h.guard(func() error { return s.ServerStream.SendMsg(m) })
}

// RecvMsg takes the lock by the first message, if the rule says so, and fails once it is lost.
func (s *serverStream) RecvMsg(m any) error {
	h, err := s.held()
	if err != nil {
		return err
	}
	if h != nil {
		err := h.guard(func() error { return s.ServerStream.RecvMsg(m) })
		if lost := h.failure(); lost != nil { // it was lost before the handler has seen the message
			return lost
		}
		return err
	}
	switch err := s.ServerStream.RecvMsg(m); {
	case errors.Is(err, io.EOF):
		return s.fail(badKey("the stream has ended without a message, which would have had its key", nil))
	case err != nil:
		return err
	}
	return s.lock(m)
}

// held is the lock if it is held already. The error is nil or says why it never will be.
func (s *serverStream) held() (*hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil, ended("the stream's handler has returned")
	case s.failed != nil:
		return nil, s.failed
	default:
		return s.hold, nil
	}
}

// lock takes the lock that m, or what came before, names.
func (s *serverStream) lock(m any) error {
	h, refused := s.in.enterFor(s.ctx, s.rule, m)
	if refused != nil {
		return s.fail(refused)
	}
	s.mu.Lock()
	over := s.over
	s.hold = h
	s.unlink = context.AfterFunc(h.ctx, func() { s.cancel(context.Cause(h.ctx)) })
	s.mu.Unlock()
	if over { // another goroutine of the handler has come this far
		_ = h.end()
		return ended("the stream's handler has returned")
	}
	return nil
}

// fail lets nothing pass any more: a call that was refused must not end well because its handler takes the error for the end of the
// stream.
func (s *serverStream) fail(e *callError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = e
	}
	return s.failed
}

// settle ends the call, whose handler has returned err. What it returns takes its place; nil if err stands.
func (s *serverStream) settle(err error) *callError {
	s.mu.Lock()
	s.over = true
	h, failed, unlink := s.hold, s.failed, s.unlink
	s.mu.Unlock()
	defer s.cancel(nil)
	switch {
	case h != nil:
		unlink()
		return h.settle(err)
	case failed == nil || err == nil || errors.Is(err, failed):
		return failed
	default:
		return failed.with(err)
	}
}
