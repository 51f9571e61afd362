package httpmw

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
)

// Options panic if they are given what can't be meant, such as a negative duration: they
// are called when a program starts. Of two that contradict each other the later one counts.
type (
	// Option is what [Exclusive] takes, and [Handle] too.
	Option interface {
		HandleOption
		exclusive(*settings)
	}
	// HandleOption is what [Handle] takes.
	HandleOption interface{ handle(*settings) }
	// TransportOption is what [Transport] takes.
	TransportOption interface{ transport(*settings) }
	// CommonOption is what all of them take.
	CommonOption interface {
		Option
		TransportOption
	}
)

type (
	serverOption    func(*settings)
	handleOption    func(*settings)
	transportOption func(*settings)
	commonOption    func(*settings)
)

func (o serverOption) exclusive(s *settings)    { o(s) }
func (o serverOption) handle(s *settings)       { o(s) }
func (o handleOption) handle(s *settings)       { o(s) }
func (o transportOption) transport(s *settings) { o(s) }
func (o commonOption) exclusive(s *settings)    { o(s) }
func (o commonOption) handle(s *settings)       { o(s) }
func (o commonOption) transport(s *settings)    { o(s) }

// Wait waits in line for at most d, and for a store that is down meanwhile:
// then 503. Default lockmw.DefaultWait, 10 s. It panics if d is not positive:
// a wait without a bound would keep the requests of clients that have gone,
// since an HTTP/1 server does not notice while their body is unread.
func Wait(d time.Duration) CommonOption {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.Wait(%v) can't be meant: give a positive duration, "+
			"or take Refuse so as not to wait", d))
	}
	return commonOption(func(s *settings) { s.wait(d) })
}

// Operation names the work: a static name such as "transfer", which whoever waits for the lock
// reads, and telemetry shows. Default: the route's pattern, r.Pattern; for a [Transport] none.
func Operation(name string) CommonOption {
	return commonOption(func(s *settings) { s.operation = name })
}

// Refuse does not wait: when somebody else has the lock, the answer is status, which
// is 409 Conflict, 423 Locked or 429 Too Many Requests. It panics with any other.
func Refuse(status int) Option {
	switch status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests:
	default:
		panic(fmt.Sprintf("lockbeat: httpmw.Refuse(%d) can't be meant: give 409, 423 or 429",
			status))
	}
	return serverOption(func(s *settings) {
		s.policy, s.longest, s.busyStatus = lockmw.Refuse(), 0, status
	})
}

// Skip takes it that whoever has the lock is doing the work: the
// answer is 204 No Content, without having run.
func Skip() Option {
	return serverOption(func(s *settings) { s.policy, s.longest = lockmw.Skip(), 0 })
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
	return serverOption(func(s *settings) { s.retryIn = d })
}

// OnBusy answers when somebody else has the lock, or too many wait for it: renewer.ErrHeld,
// renewer.ErrQueueFull, [ErrTooMany] or, with [Skip], lockmw.ErrSkipped. Default [Respond]. It
// panics if respond is nil.
func OnBusy(respond Responder) Option {
	needs("OnBusy", respond)
	return serverOption(func(s *settings) { s.onBusy = respond })
}

// OnError answers whatever else keeps a request from running: a bad key or body, a store
// that can't be asked, a keeper that is shut down, the request's own deadline. Nobody is
// asked when the client has gone. Default [Respond]. It panics if respond is nil.
func OnError(respond Responder) Option {
	needs("OnError", respond)
	return serverOption(func(s *settings) { s.onError = respond })
}

// OnLost answers when the lock was lost and the handler has written nothing: renewer.ErrLost.
// What it has written stands, unless [AbortLost] is given. It makes the handler's writer a
// wrapped one, as AbortLost does. Default: a 503 without a body. It panics if respond is nil.
func OnLost(respond Responder) Option {
	needs("OnLost", respond)
	return serverOption(func(s *settings) { s.onLost = respond })
}

func needs(option string, respond Responder) {
	if respond == nil {
		panic("lockbeat: httpmw." + option + " needs a responder such as httpmw.Respond")
	}
}

// AbortLost breaks the answer off, by panic(http.ErrAbortHandler), when the
// lock was lost and something of it has been written: so the client sees
// that it is broken, rather than a whole one. Without it what the handler
// has written stands. If nothing has been, the answer is a 503 with a body.
//
// The handler's http.ResponseWriter is wrapped then, to know what has been written. It has
// the optional interfaces that it has without (http.Flusher, http.Hijacker, io.ReaderFrom
// and so on, and Unwrap for http.ResponseController), but it is another value, so that
// http.MaxBytesReader does not close the connection of a client that sends too much.
func AbortLost() Option { return serverOption(func(s *settings) { s.abortLost = true }) }
