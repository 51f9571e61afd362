package httpmw

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/newest"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option says what to do for [Exclusive], [Handle] and [Codec.Handle]. Of two that contradict each
// other the later one counts. An option panics if it is given what can't be meant, such as a
// negative duration: programs call it when they start.
type Option func(*settings)

// settings are what the options set. Exclusive and Handle each read those that apply.
type settings struct {
	// The lock.
	policy     lockmw.Option
	longest    time.Duration   // that policy waits; 0: it does not
	newest     []lockmw.Option // Replace or Latest, or neither
	busyStatus int             // when another request has the lock
	fullStatus int             // when a limit is full
	limits     []lockmw.Option
	atMost     func(name string) int // one of these; nil without
	operation  string                // "": the route
	waiters    int
	maxHold    maxhold.Setting
	failOpen   int // how many may run without their lock; 0: none

	// The answer.
	respond   Responder
	abortLost bool

	// The request's body.
	maxBody    int64
	streamBody bool

	// The client.
	clientWaiters int
	client        KeyFunc // nil: no bound for each client
}

// newSettings panics if no lock of k can be had with these options.
func newSettings(k *renewer.Keeper, opts []Option) settings {
	s := settings{respond: Respond, waiters: 100, maxBody: httpguard.DefaultMaxBody}
	s.wait(lockmw.DefaultWait)
	for _, o := range opts {
		o(&s)
	}
	err := cmp.Or(s.maxHold.Check(k), newest.Check(s.newest, k, len(s.limits) > 0))
	if err != nil {
		panic(err.Error())
	}
	return s
}

func (s *settings) wait(d time.Duration) {
	s.policy, s.longest = lockmw.Wait(d), d
	s.busyStatus, s.fullStatus = http.StatusServiceUnavailable, http.StatusTooManyRequests
}

// refuses has requests not wait.
func (s *settings) refuses(policy lockmw.Option) {
	s.policy, s.longest, s.newest = policy, 0, nil
}

// lock returns the options for lockmw.
func (s *settings) lock(route string) []lockmw.Option {
	opts := []lockmw.Option{
		s.policy, lockmw.MaxWaiters(s.waiters), lockmw.Operation(s.operationOr(route)),
	}
	return maxhold.AddTo(slices.Concat(opts, s.newest, s.limits), s.maxHold, lockmw.MaxHold)
}

// operationOr returns the name of the work, by default the route.
func (s *settings) operationOr(route string) string {
	if s.operation == "" {
		return route
	}
	return s.operation
}

// Wait has a request wait for the lock for at most d, even while the store is down;
// then 503, or 429 if it is a limit. A deadline of other middleware ends the wait a margin before
// it (lockmw.AnswerBy). It bounds [Replace] and [Latest], too. It panics if d is not positive.
// Default lockmw.DefaultWait, 10 s.
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
	return func(s *settings) { s.wait(d) }
}

// Refuse does not wait: when another caller has the lock, or the limit is full, the answer is
// status, which is 409 Conflict, 423 Locked or 429 Too Many Requests. It panics with any other.
func Refuse(status int) Option {
	switch status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests:
	default:
		panic(fmt.Sprintf("lockbeat: httpmw.Refuse(%d) can't be meant: give 409, 423 or 429",
			status))
	}
	return func(s *settings) {
		s.refuses(lockmw.Refuse())
		s.busyStatus, s.fullStatus = status, status
	}
}

// Skip answers 204 No Content when another caller has the lock: that caller is doing the work. The
// handler does not run.
func Skip() Option {
	return func(s *settings) { s.refuses(lockmw.Skip()) }
}

// Replace has the newest request for a name win: it ends the one that is being carried out, and
// takes the place of one that waits. Both are answered with 409 and #replaced, unless they have
// written something; the context of the one that ran ends with the cause renewer.ErrReplaced. The
// handler runs when the older one has returned. [MaxWaiters] does not refuse the newest request;
// with [MaxWaitersPerClient] allow two at least. It is for searches as one types, previews and the
// like, with a name for each user or document. The newest is that of the greatest rank, if the name
// is made by [lockmw.Ranked], or else the one whose name was known last: see [lockmw.Replace].
// [Exclusive] and [Handle] panic if the keeper's store does not know which call is the newest, or
// with [AtMost] or [LocalShare].
func Replace() Option { return newestOf(lockmw.Replace()) }

// Latest has the newest request for a name wait as the only one, until the one that is being
// carried out is done: one that waited for it is answered with 409 and #replaced. Otherwise it
// is like [Replace]: see [lockmw.Latest].
func Latest() Option { return newestOf(lockmw.Latest()) }

func newestOf(option lockmw.Option) Option {
	return func(s *settings) {
		if s.longest == 0 {
			s.wait(lockmw.DefaultWait)
		}
		s.newest = []lockmw.Option{option}
	}
}

// Operation names the work: a static name such as "transfer", which callers that wait can read, and
// telemetry shows. Default: the route's pattern, r.Pattern.
func Operation(name string) Option {
	return func(s *settings) { s.operation = name }
}

// MaxHold bounds how long a request keeps its lock, in place of renewer.Config.MaxHold: longer for
// an export, say, or shorter. Zero or less: no bound. If d is less than one
// renewer.Config.Heartbeat, [Exclusive] and [Handle] panic. See [lockmw.MaxHold].
// Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return func(s *settings) { s.maxHold = maxhold.Of(d) }
}

// MaxBody bounds a request's body to n bytes: 413 beyond, and no lock is asked for. All of it is
// read before the lock, into memory, so that a client that is slow to send does not hold the lock.
// It panics if n is below 1. Default 1 MiB.
func MaxBody(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxBody(%d) can't be meant: give a number of bytes", n))
	}
	return func(s *settings) { s.maxBody, s.streamBody = n, false }
}

// StreamBody has the handler read the body, under the lock. It is for large uploads, and for
// handlers that answer while they read. By sending nothing a client can hold the lock for as long
// as it likes: set renewer.Config.MaxHold, and either http.Server.ReadTimeout or a deadline of the
// handler's own (http.ResponseController). It is for [Exclusive]; [Handle] panics with it, since it
// decodes the body.
//
// By HTTP/2 a request with a body does not wait, whatever [Wait] says: when another caller has the
// lock, it is answered at once, as if its wait had run out. Unread bodies of requests that wait
// would fill the connection's window, which the holder's body may need. A request without a body
// waits. For gRPC behind net/http there is package grpcmw, whose calls wait.
func StreamBody() Option {
	return func(s *settings) { s.streamBody = true }
}

// OnRefused answers a request that did not run, or whose lock was lost before the handler had
// answered. Of a loss it is asked with [AbortLost] only, since it is not known otherwise whether
// the handler has answered. When the client has gone, what it writes reaches nobody. Default
// [Respond]. It panics if respond is nil.
func OnRefused(respond Responder) Option {
	if respond == nil {
		panic("lockbeat: httpmw.OnRefused needs a responder such as httpmw.Respond")
	}
	return func(s *settings) { s.respond = respond }
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
func AbortLost() Option { return func(s *settings) { s.abortLost = true } }
