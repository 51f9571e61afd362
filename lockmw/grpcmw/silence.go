package grpcmw

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
)

// defaultSilence is how long a server's stream under a lock waits for its
// client unless [Silence] says otherwise: a minute.
const defaultSilence = time.Minute

// ErrSilence is the cause with which the context of a stream ends whose client
// was silent.
var ErrSilence = errors.New("lockbeat: the client of a stream under a lock has been silent for " +
	"too long")

// Silence bounds how long a stream that has its lock waits for its client, in
// RecvMsg or SendMsg, while no message passes in either direction. Then its
// context ends with [ErrSilence], and it itself with codes.DeadlineExceeded. A
// client that sends a message now and then is bounded by lockmw.MaxHold alone.
// Default a minute.
func Silence(d time.Duration) Option {
	return own(func(s *settings) {
		if d <= 0 {
			s.refuse("Silence(%v): give for how long a client may be silent, or NoBound", d)
		}
		s.silence = d
	})
}

// silence records since when a stream waits for its peer. A stream has one
// timer, which reads what its operations have recorded here; they have no
// timers of their own.
type silence struct {
	begun time.Time // of the stream; the instants below are nanoseconds since

	receiving, sending atomic.Int64 // since when such an operation waits; 0: none does
	passed             atomic.Int64 // when the last message has passed

	mu    sync.Mutex // orders the timer's setting and stopping
	timer *time.Timer
}

// now is never 0.
func (q *silence) now() int64 { return int64(time.Since(q.begun)) + 1 }

// left is how much longer the peer may be silent, if it may be for most. It is
// not positive if the peer has been silent for too long.
func (q *silence) left(most time.Duration) time.Duration {
	left := most
	for _, waiting := range []*atomic.Int64{&q.receiving, &q.sending} {
		if since := waiting.Load(); since != 0 {
			waited := q.now() - max(since, q.passed.Load())
			left = min(left, most-time.Duration(waited))
		}
	}
	return left
}

// during runs an operation that may wait.
func (s *serverStream) during(waiting *atomic.Int64, do func() error) error {
	waiting.Store(s.now())
	defer waiting.Store(0)
	err := guard(s.ctx, do)
	if err == nil {
		s.passed.Store(s.now())
	}
	return err
}

// watch calls cancel when the client has been silent for most, until stop is
// called.
func (s *serverStream) watch(most time.Duration, cancel context.CancelCauseFunc) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = time.Now()
	s.timer = time.AfterFunc(most, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch left := s.left(most); {
		case s.over.Load():
		case left > 0:
			s.timer.Reset(left) // the client may have been silent for long enough then
		default:
			cancel(ErrSilence)
		}
	})
	return func() {
		s.over.Store(true)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer.Stop()
	}
}

// silentError is for a stream whose client has been silent for too long.
func silentError() *callError {
	return halfDone(codes.DeadlineExceeded, "the stream's client has been silent for longer than "+
		"a lock is held for it", []error{ErrSilence}, reasonSilence)
}
