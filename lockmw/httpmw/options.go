package httpmw

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option is for [Middleware], [Wrap] and [WrapWith], and for package ginmw: those of package lockmw
// that fit (lockmw.AnyOption, WaitOption, HandlerOption and SkipOption) and this package's. An option
// that is invalid panics where the handler is wrapped.
//
//   - lockmw.Wait is 10 s by default; then the answer is 503, or 429 of a limit. A deadline of other
//     middleware ends the wait a margin before it. lockmw.NoBound is refused: a client that has gone is
//     not noticed while its body is unread. Let http.Server.WriteTimeout and the time of an
//     http.TimeoutHandler exceed the wait and the handler's work together.
//   - lockmw.Refuse is 409, of a limit 429; lockmw.Skip is 204. [OnRefused] answers otherwise.
//   - lockmw.Strict breaks the answer off, by panic(http.ErrAbortHandler), when the lock was lost and
//     the handler has written something; if it has written nothing, the answer is a 503 with a body.
//     It wraps the http.ResponseWriter, with the same optional interfaces: so http.MaxBytesReader does
//     not close the connection of a client that sends too much.
//   - lockmw.MaxWaiters is 100 by default. lockmw.Operation is the route's pattern.
type Option interface {
	ForHTTP(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*settings)

// ForHTTP implements [Option].
func (own) ForHTTP(s option.Settings) option.Settings { return s }

// settings are what the options set.
type settings struct {
	option.Settings

	longest    time.Duration // that a request waits; 0: it does not
	busyStatus int           // when another request has the lock

	respond Responder

	// The request's body.
	maxBody    int64
	streamBody bool

	// The client.
	clientWaiters int
	client        func(*http.Request) string // nil: no bound for each client
}

// defaultWaiters is how many requests wait for one name.
const defaultWaiters = 100

// newSettings panics if no lock of k can be had with these options.
func newSettings(k *renewer.Keeper, opts []Option) settings {
	s := settings{respond: Respond, maxBody: httpguard.DefaultMaxBody}
	for _, o := range opts {
		if mine, ok := o.(own); ok {
			mine(&s)
		} else {
			s.Settings = o.ForHTTP(s.Settings)
		}
	}
	s.MustSuit(k)
	if s.Wait == 0 {
		s.Wait = lockmw.DefaultWait
	}
	if s.Waiters == 0 {
		s.Waiters = defaultWaiters
	}
	if s.Contention != option.Waits {
		s.busyStatus = http.StatusConflict
		return s
	}
	if s.Wait == option.NoBound {
		panic("lockbeat: httpmw: Wait(NoBound) would keep the requests of clients that have gone: " +
			"give how long a request may wait")
	}
	s.longest, s.busyStatus = s.Wait, http.StatusServiceUnavailable
	return s
}

// lock returns the settings of a request's lock.
func (s *settings) lock(r *http.Request) option.Settings {
	opt := s.Settings
	opt.Operation = s.operationOr(r.Pattern)
	// Strict, so that a loss is always reported: run decides what it means by what was written.
	opt.Strict, opt.InTime = true, true
	if s.longest > 0 && s.streamBody && keepsWindow(r) {
		opt = opt.NoWait(option.Refuses)
	}
	return opt
}

// operationOr returns the name of the work, by default the route.
func (s *settings) operationOr(route string) string {
	if s.Operation == "" {
		return route
	}
	return s.Operation
}

// MaxBody bounds a request's body to n bytes: 413 beyond, and no lock is asked for. All of it is
// read before the lock, into memory, so that a client that is slow to send does not hold the lock.
// It panics if n is below 1. Default 1 MiB.
func MaxBody(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxBody(%d) can't be meant: give a number of bytes", n))
	}
	return own(func(s *settings) { s.maxBody, s.streamBody = n, false })
}

// StreamBody has the handler read the body, under the lock: for large uploads, and for handlers that
// answer while they read. By sending nothing a client can hold the lock for as long as it likes: set
// renewer.Config.MaxHold, and either http.Server.ReadTimeout or a deadline of the handler's own.
// [Wrap] panics with it.
//
// By HTTP/2 a request with a body does not wait, and is answered as if its wait had run out: unread
// bodies would fill the connection's window, which the holder's body may need.
func StreamBody() Option { return own(func(s *settings) { s.streamBody = true }) }

// MaxWaitersPerClient bounds how many requests of one client ask or wait for locks of this handler
// at once, in this process, whatever their names. One more is answered with 429 and Retry-After at
// once. A request counts from when its body has been read until the lock is had or refused.
//
// The function client returns who sends a request: the authenticated user, or the tenant; an empty
// one is answered with 400. It may be called concurrently. Default: no limit but lockmw.MaxWaiters.
// It panics if n is below 1 or client is nil.
func MaxWaitersPerClient(n int, client func(*http.Request) string) Option {
	if n < 1 || client == nil {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxWaitersPerClient(%d) can't be meant: give at "+
			"least 1, and a function that says who sends a request", n))
	}
	return own(func(s *settings) { s.clientWaiters, s.client = n, client })
}

// OnRefused answers a request that did not run, or whose lock was lost before the handler had
// answered. Of a loss it is asked with lockmw.Strict only, since it is not known otherwise whether
// the handler has answered. Default [Respond]. It panics if respond is nil.
func OnRefused(respond Responder) Option {
	if respond == nil {
		panic("lockbeat: httpmw.OnRefused needs a responder such as httpmw.Respond")
	}
	return own(func(s *settings) { s.respond = respond })
}
