package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// StreamServerInterceptor runs the handlers of streaming methods under the locks
// that the rules among opts name; other methods pass through, their streams as they
// are. See the package's text for the outcomes, and for when a stream is locked. It
// panics if k is nil, on two rules for one method, and on a rule for a unary method.
//
// The lock is held until the handler returns, panics or exits. Once it is lost, or the client has
// been silent for too long ([Silence]), SendMsg and RecvMsg fail, those under way too. An error
// of a lock that a handler returns, with a rule or without, is answered as [Respond] does.
func StreamServerInterceptor(k *renewer.Keeper, opts ...Option) grpc.StreamServerInterceptor {
	in := newInterceptor("StreamServerInterceptor", k, opts, true)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler,
	) error {
		ctx, err := in.accept(stream.Context())
		if err != nil {
			return err
		}
		if r := in.rules[info.FullMethod]; r != nil {
			return in.serveStream(ctx, r, srv, stream, handler)
		}
		if in.fence || in.strip {
			stream = contextStream{stream, ctx}
		}
		return in.answer(ctx, stream.SetTrailer, handler(srv, stream))
	}
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream

	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

func (in *interceptor) serveStream(
	ctx context.Context, r *rule, srv any, stream grpc.ServerStream, handler grpc.StreamHandler,
) error {
	s := &serverStream{
		ServerStream: stream, in: in, rule: r, taking: make(chan struct{}, 1),
		silence: silence{begun: time.Now()},
	}
	if r.message == nil {
		var bad *callError
		if s.key, bad = in.keyBefore(ctx, r); bad != nil {
			return bad
		}
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return unwind.Then(func() error { return handler(srv, s) }, func(err error) error {
		failed := cmp.Or(s.settle(err), in.own(err))
		if failed == nil {
			return err
		}
		stream.SetTrailer(failed.trailer(ctx))
		return failed
	})
}

// keyBefore is the key of a stream that is known before its first message.
func (in *interceptor) keyBefore(ctx context.Context, r *rule) (string, *callError) {
	key, bad := in.keyOf(ctx, r, nil)
	if bad != nil {
		return "", bad
	}
	if err := renewer.CheckName(key); err != nil {
		return "", in.refused(err)
	}
	return key, nil
}

// serverStream is a stream under a lock, which it takes by its first message. One that was opened
// and left holds nothing.
type serverStream struct {
	grpc.ServerStream

	in   *interceptor
	rule *rule
	key  string // unless it is in the first message

	// The lock is taken in it. It ends when the lock is lost too, since a handler asks for its
	// context first of all and then keeps it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	hold    atomic.Pointer[hold] // nil until the lock is held
	taking  chan struct{}        // has room for one, who asks for the lock
	silence silence

	mu     sync.Mutex
	used   bool        // the handler has received or sent, or has tried to
	failed *callError  // why nothing passes any more, or never will
	over   bool        // the handler has returned
	unlink func() bool // takes ctx from hold
	timer  *time.Timer // looks for silence, once the lock is held
}

// Context is the operation's, once the lock is held.
func (s *serverStream) Context() context.Context {
	if h := s.hold.Load(); h != nil {
		return h.ctx
	}
	return earlyContext{s.ctx, s}
}

// SendMsg takes the lock if its key is known without a message. It fails before the lock is held,
// and once it is lost.
func (s *serverStream) SendMsg(m any) error {
	h, err := s.lockToSend()
	if err != nil {
		return err
	}
	if lost := h.failure(); lost != nil {
		return lost
	}
	return s.silence.during(&s.silence.sending, func() error {
		return s.guard(func() error { return s.ServerStream.SendMsg(m) })
	})
}

// lockToSend takes the lock without a message, after those of interceptors further out: they take
// theirs before this one's when a message is received, and two streams must not take the same locks
// in different orders.
func (s *serverStream) lockToSend() (*hold, error) {
	if h, err := s.held(); h != nil || err != nil {
		return h, err
	}
	if s.rule.message != nil {
		return nil, s.fail(misused(fmt.Sprintf("%s sends before it has received the first "+
			"message, which has the key of its lock: "+
			"receive first, or use ForMetadata", s.rule.method)))
	}
	if outer, _ := s.ctx.Value(streamKey{}).(*serverStream); outer != nil {
		if _, err := outer.lockToSend(); err != nil {
			return nil, err
		}
	}
	return s.lock(nil)
}

// RecvMsg takes the lock by the first message, and fails once it is lost.
func (s *serverStream) RecvMsg(m any) error {
	h, err := s.held()
	if err != nil {
		return err
	}
	err = s.silence.during(&s.silence.receiving, func() error {
		return s.guard(func() error { return s.ServerStream.RecvMsg(m) })
	})
	if h == nil {
		err = s.first(m, err)
	}
	if over := s.ending(); over != nil { // it was lost before the handler has seen the message
		return over
	}
	return err
}

// first takes the lock by the stream's first message, m, or by the end that comes in place of one;
// err is what came with it.
func (s *serverStream) first(m any, err error) error {
	switch end := errors.Is(err, io.EOF); {
	case err != nil && !end:
		return err
	case end && s.rule.message != nil:
		return s.fail(badKey("the stream has ended without a message, which would have had its "+
			"key", nil))
	}
	if _, refused := s.lock(m); refused != nil {
		return refused
	}
	return err
}

// held is the lock if it is held already. The error is nil or says why nothing passes any more.
func (s *serverStream) held() (*hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
	switch {
	case s.over:
		return nil, ended("the stream's handler has returned")
	case s.failed != nil:
		return nil, s.failed
	default:
		return s.hold.Load(), nil
	}
}

// ending is why this package has ended the stream; nil if it has not,
// even if the peer has ended it.
func (s *serverStream) ending() error {
	if h := s.hold.Load(); h != nil {
		if lost := h.failure(); lost != nil {
			return lost
		}
	}
	// A lock around the call ends s.ctx a moment before h.ctx, and also while there is no h.
	if loss := lossIn(s.ctx); loss != nil {
		return s.fail(lostError(loss, nil))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	return nil
}

// lock takes the lock that m, or what came before, names, unless it is held. A handler may receive
// and send at the same time.
func (s *serverStream) lock(m any) (*hold, error) {
	s.taking <- struct{}{}
	defer func() { <-s.taking }()
	if h, err := s.held(); h != nil || err != nil {
		return h, err
	}
	key := s.key
	if s.rule.message != nil {
		var bad *callError
		if key, bad = s.rule.message(m); bad != nil {
			return nil, s.fail(bad)
		}
	}
	h, refused := s.in.enter(s.ctx, s.rule, key)
	if refused != nil {
		return nil, s.fail(refused)
	}
	if !s.take(h) {
		_ = h.end()
		return nil, ended("the stream's handler has returned")
	}
	return h, nil
}

// take makes h the stream's lock, unless the handler has returned,
// and left a goroutine behind that asks for the lock.
func (s *serverStream) take(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.hold.Store(h)
	s.unlink = context.AfterFunc(h.ctx, func() { s.cancel(context.Cause(h.ctx)) })
	// It looks for the first time when an operation that waits now
	// has waited for as long as it may.
	s.timer = time.AfterFunc(s.in.silence, s.listen)
	return true
}

// listen ends the stream if its client has been silent for too long.
// Otherwise it looks again when the client may have been.
func (s *serverStream) listen() {
	if s.isSilent() {
		s.cancel(ErrSilence)
	}
}

func (s *serverStream) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.failed != nil {
		return false
	}
	if left := s.silence.left(s.in.silence); left > 0 {
		s.timer.Reset(left)
		return false
	}
	s.failed = silentError()
	return true
}

// fail lets no message pass any more. A call that was refused must not
// end well because its handler takes the error for the end of the stream.
func (s *serverStream) fail(e *callError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = e
	}
	return s.failed
}

// settle ends the call, whose handler has returned err. What it
// returns takes its place; nil if err stands.
func (s *serverStream) settle(err error) *callError {
	s.mu.Lock()
	s.over = true
	h, failed, used := s.hold.Load(), s.failed, s.used
	s.mu.Unlock()
	defer s.cancel(nil)
	if h != nil {
		s.timer.Stop()
		s.unlink()
		if lost := h.settle(err); lost != nil {
			return lost
		}
	}
	switch {
	case failed == nil && err == nil && !used && s.ctx.Err() == nil:
		return misused(fmt.Sprintf("%s has neither received nor sent a message, and so it ran "+
			"without its lock", s.rule.method))
	case failed == nil || err == nil || errors.Is(err, failed):
		return failed
	default:
		return failed.with(err)
	}
}
