package httpmw

import (
	"cmp"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option is for [Middleware], [Wrap] and [WrapWith], and for package ginmw:
// lockmw.AnyOption, WaitOption, HandlerOption and SkipOption, and those of this
// package. An invalid one panics where the handler is wrapped.
//
//   - lockmw.Wait: then the answer is 503, or 429 of a limit. A deadline of other
//     middleware ends the wait a margin before it. NoBound is refused. Let
//     http.Server.WriteTimeout and http.TimeoutHandler allow for the wait and the work.
//   - lockmw.Refuse is 409, of a limit 429; lockmw.Skip is 204. [OnRefused] answers
//     otherwise.
//   - lockmw.Strict breaks the answer off, by panic(http.ErrAbortHandler), if the lock was
//     lost and some of it was written; else the 503 has a body.
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
		switch o := o.(type) {
		case nil:
		case own:
			o(&s)
		default:
			s.Settings = o.ForHTTP(s.Settings)
		}
	}
	s.Wait = cmp.Or(s.Wait, lockmw.DefaultWait)
	s.Waiters = cmp.Or(s.Waiters, defaultWaiters)
	s.busyStatus = http.StatusConflict
	if s.Contention == option.Waits {
		s.longest, s.busyStatus = s.Wait, http.StatusServiceUnavailable
	}
	if s.longest == option.NoBound {
		s.refuse("Wait(NoBound) would keep requests whose clients have gone: give how long a " +
			"request may wait")
	}
	s.MustSuit(k)
	return s
}

// refuse notes that an option is invalid.
func (s *settings) refuse(format string, args ...any) {
	s.Settings = s.Invalid("httpmw: "+format, args...)
}

// lock returns the settings of a request's lock.
func (s *settings) lock(r *http.Request) option.Settings {
	opt := s.Settings
	opt.Operation = cmp.Or(s.Operation, r.Pattern)
	// Strict, so that a loss is always reported: serve decides what it means.
	opt.Strict, opt.InTime = true, true
	if s.longest > 0 && s.streamBody && keepsWindow(r) {
		opt = opt.NoWait(option.Refuses)
	}
	return opt
}

// MaxBody bounds a request's body to n bytes, 1 or more: 413 beyond. All of it
// is read before the lock, into memory, so that a client that is slow to send
// does not hold the lock. Default 1 MiB.
func MaxBody(n int64) Option {
	return own(func(s *settings) {
		if n < 1 {
			s.refuse("MaxBody(%d): give a number of bytes", n)
		}
		s.maxBody, s.streamBody = n, false
	})
}

// StreamBody has the handler read the body, under the lock: for large uploads,
// and for handlers that answer while they read. By sending nothing a client can
// hold the lock for as long as it likes: set renewer.Config.MaxHold, and
// http.Server.ReadTimeout or a deadline of the handler's own. It is not for
// [Wrap].
//
// By HTTP/2 a request with a body does not wait, and is answered as if its wait
// had run out: unread bodies would fill the connection's window, which the
// holder's body may need.
func StreamBody() Option { return own(func(s *settings) { s.streamBody = true }) }

// MaxWaitersPerClient bounds how many requests of one client ask or wait for
// locks of this handler at once, in this process, whatever their names: one
// more is answered with 429 at once. client returns who sends a request, such
// as the authenticated user; "" is answered with 400. It may be called
// concurrently. Default: no bound but lockmw.MaxWaiters.
func MaxWaitersPerClient(n int64, client func(*http.Request) string) Option {
	return own(func(s *settings) {
		if n < 1 || client == nil {
			s.refuse("MaxWaitersPerClient(%d): give 1 or more, and a function that says who "+
				"sends a request", n)
		}
		s.clientWaiters, s.client = int(min(n, math.MaxInt)), client
	})
}

// OnRefused answers a request that did not run, or whose lock was lost before
// the handler had answered; of a loss with lockmw.Strict only, since it is not
// known otherwise whether the handler has answered. Default [Respond].
func OnRefused(respond Responder) Option {
	return own(func(s *settings) {
		if respond == nil {
			s.refuse("OnRefused needs a responder such as httpmw.Respond")
		}
		s.respond = respond
	})
}

// clients counts the requests of each client that ask or wait for a lock. A nil
// one has no bound.
type clients struct {
	of      func(*http.Request) string
	waiting *quota.Each
}

func newClients(s *settings) *clients {
	if s.client == nil {
		return nil
	}
	return &clients{s.client, quota.New(s.clientWaiters)}
}

// count counts a request for its client until leave is called, once or more.
// The error is for one too many.
func (c *clients) count(r *http.Request) (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	client := c.of(r)
	switch {
	case client == "":
		return nil, httpguard.ErrNoCaller
	case !c.waiting.Take(client):
		return nil, errTooMany
	}
	return sync.OnceFunc(func() { c.waiting.Give(client) }), nil
}
