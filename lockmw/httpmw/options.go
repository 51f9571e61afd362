package httpmw

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
)

// An option panics if it is given what can't be meant, such as a negative duration:
// programs call it when they start. Of two that contradict each other the later one counts.
type (
	// Option is what [Exclusive] takes, and [Handle] too.
	Option interface {
		HandleOption
		exclusive(*settings)
	}
	// HandleOption is what [Handle] takes.
	HandleOption interface{ handle(*settings) }
)

type (
	option       func(*settings)
	handleOption func(*settings)
)

func (o option) exclusive(s *settings)    { o(s) }
func (o option) handle(s *settings)       { o(s) }
func (o handleOption) handle(s *settings) { o(s) }

// Wait has a request wait for the lock for at most d, even while the store is down;
// then 503. A deadline of other middleware ends the wait a margin before it
// (lockmw.AnswerBy). It panics if d is not positive. Default lockmw.DefaultWait, 10 s.
//
// Let http.Server.WriteTimeout and the time of an http.TimeoutHandler exceed d and the handler's
// work together: else the client gets no answer, or a 503, to a request that is carried out.
//
// There is no wait without a bound: it would keep the requests of clients that have gone, since an
// HTTP/1 server does not notice while their body is unread.
func Wait(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.Wait(%v) can't be meant: give a positive duration, "+
			"or take Refuse so as not to wait", d))
	}
	return option(func(s *settings) { s.wait(d) })
}

// Operation names the work: a static name such as "transfer", which callers that wait can read, and
// telemetry shows. Default: the route's pattern, r.Pattern.
func Operation(name string) Option {
	return option(func(s *settings) { s.operation = name })
}

// ReleaseInBackground has the client not wait for the release of the lock, which is one round trip
// to the store: see [lockmw.ReleaseInBackground]. A loss that the release alone finds is told to
// the keeper's Observer only. Default: the lock is released before the response ends.
func ReleaseInBackground() Option {
	return option(func(s *settings) { s.background = true })
}

// MaxHold bounds how long a request keeps its lock, in place of renewer.Config.MaxHold: longer for
// an export, say, or shorter. Zero or less: no bound. If d is less than one
// renewer.Config.Heartbeat, [Exclusive] and [Handle] panic. See [lockmw.MaxHold].
// Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return option(func(s *settings) { s.maxHold = maxhold.Of(d) })
}

// Refuse does not wait: when another caller has the lock, the answer is status, which
// is 409 Conflict, 423 Locked or 429 Too Many Requests. It panics with any other.
func Refuse(status int) Option {
	switch status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests:
	default:
		panic(fmt.Sprintf("lockbeat: httpmw.Refuse(%d) can't be meant: give 409, 423 or 429",
			status))
	}
	return option(func(s *settings) {
		s.policy, s.longest, s.busyStatus = lockmw.Refuse(), 0, status
	})
}

// Skip answers 204 No Content when another caller has the lock: that caller is doing the work. The
// handler does not run.
func Skip() Option {
	return option(func(s *settings) { s.policy, s.longest = lockmw.Skip(), 0 })
}

// RetryAfter sets about what Retry-After says: a random duration between half of d and
// one and a half, rounded up to whole seconds, so that clients refused together do not
// come back together. Default lockmw.RetryIn: a second, five if the store was down,
// and longer for a lock that has been held for long. It panics if d is not positive.
func RetryAfter(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.RetryAfter(%v) can't be meant: give a positive "+
			"duration, such as a second", d))
	}
	return option(func(s *settings) { s.retryIn = d })
}

// OnBusy answers when another caller has the lock, or too many wait for it: renewer.ErrHeld,
// renewer.ErrQueueFull, [ErrTooMany] or, with [Skip], lockmw.ErrSkipped. Default [Respond]. It
// panics if respond is nil.
func OnBusy(respond Responder) Option {
	needs("OnBusy", respond)
	return option(func(s *settings) { s.onBusy = respond })
}

// OnError answers a request that does not run for any other reason: a bad key or body, a
// store that does not answer, a keeper that is shut down, a deadline that has passed. It
// is not called when the client has gone. Default [Respond]. It panics if respond is nil.
func OnError(respond Responder) Option {
	needs("OnError", respond)
	return option(func(s *settings) { s.onError = respond })
}

// OnLost answers when the lock was lost and the handler has written nothing: renewer.ErrLost.
// What the handler has written stands, unless [AbortLost] is given. OnLost wraps the handler's
// writer, as AbortLost does. Default: a 503 without a body. It panics if respond is nil.
func OnLost(respond Responder) Option {
	needs("OnLost", respond)
	return option(func(s *settings) { s.onLost = respond })
}

func needs(option string, respond Responder) {
	if respond == nil {
		panic("lockbeat: httpmw." + option + " needs a responder such as httpmw.Respond")
	}
}

// AbortLost breaks the answer off, by panic(http.ErrAbortHandler), when the
// lock was lost and the handler has written something. So the client sees a
// broken answer rather than a whole one. Without AbortLost what the handler has
// written stands. If it has written nothing, the answer is a 503 with a body.
//
// AbortLost wraps the handler's http.ResponseWriter, to know what was written. The wrapper has the
// same optional interfaces (http.Flusher, http.Hijacker, io.ReaderFrom and so on, and Unwrap for
// http.ResponseController). But it is another value, so that http.MaxBytesReader does not close the
// connection of a client that sends too much.
func AbortLost() Option { return option(func(s *settings) { s.abortLost = true }) }
