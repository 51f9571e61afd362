package idempotent

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
)

// Option says what one [Middleware] does. Of two that contradict each
// other the later one counts. An option panics if it is given what can't
// be meant, such as a negative duration: programs call it when they start.
type Option func(*settings)

// Scope tells callers with the same ID apart: the same caller and key in another
// scope are another request. Give each service that shares a Redis a scope, such as
// its name. Give two handlers a scope each if the same ID means another caller to
// them. A store prefix for each service (redisstore.Prefix) does it as well, and
// keeps their locks apart too. With another scope all keys are new. Default "".
func Scope(scope string) Option {
	return func(s *settings) { s.Scope = scope }
}

// WaitForAnswer has a request wait for at most d while another with the same key is being carried
// out, and at most until a margin before a deadline of other middleware (lockmw.AnswerBy). Then it
// gets the answer of that one, or is carried out itself if that one came to nothing. It panics if d
// is not positive. Default: no waiting, 409.
func WaitForAnswer(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: idempotent.WaitForAnswer(%v) can't be meant: give a positive "+
			"duration, or leave it out so as not to wait", d))
	}
	return func(s *settings) { s.WaitForAnswer = d }
}

// FinishWithin is how long a handler may go on when its client has gone, or when a
// deadline of other middleware has passed. After that its context ends. Give more for
// a handler that needs longer, and 0 for a handler that undoes what it has begun when
// its context ends. It panics if d is negative. Default [DefaultFinishWithin], 1 min.
func FinishWithin(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("lockbeat: idempotent.FinishWithin(%v) can't be meant: give a "+
			"duration, or 0 so that a handler ends with its client", d))
	}
	return func(s *settings) { s.FinishWithin = d }
}

// MaxHold bounds how long a request keeps its lock, in place of renewer.Config.MaxHold: after d
// another request with its key may run the handler. Give more than a handler takes. Zero or less:
// no bound. If d is less than one renewer.Config.Heartbeat, [Middleware] panics. See
// [lockmw.MaxHold]. Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return func(s *settings) { s.MaxHold = maxhold.Of(d) }
}

// MaxRunningPerCaller bounds how many requests of one caller are being carried out at once in this
// process, for each call of [Middleware]: n. A request with a new key beyond that is answered with
// 429 and Retry-After at once, its handler does not run, and nothing is stored: [ErrTooMany].
// Stored answers are still replayed, and requests that wait for another's answer do not count.
//
// It is what bounds requests whose clients have gone: they go on ([FinishWithin]), each with its
// body in memory, and by HTTP/2 without a connection. Give more where a caller is many clients,
// such as a tenant. It panics if n is below 1. Default [DefaultMaxRunningPerCaller], 64: more than
// one user's clients send at once, and with bodies of 1 MiB no more than 64 MiB.
func MaxRunningPerCaller(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxRunningPerCaller(%d) can't be meant: give at "+
			"least 1, or leave it out for %d", n, DefaultMaxRunningPerCaller))
	}
	return func(s *settings) { s.MaxRunning = n }
}

// KeyOptional lets requests without an Idempotency-Key through, as if there were no guard. Default:
// they are answered with 400.
func KeyOptional() Option {
	return func(s *settings) { s.keyOptional = true }
}

// Operation names the work: a static name such as "order", which requests that wait can read, and
// telemetry shows. Default: the route's pattern, r.Pattern.
func Operation(name string) Option {
	return func(s *settings) { s.operation = name }
}

// MaxBody bounds a request's body to n bytes: 413 beyond. All of it is read first,
// into memory. It panics if n is below 1. Default [httpmw.DefaultMaxBody], 1 MiB.
func MaxBody(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxBody(%d) can't be meant: give a number of "+
			"bytes, such as httpmw.DefaultMaxBody", n))
	}
	return func(s *settings) { s.maxBody = n }
}

// BodyTimeout is how long each 64 KiB of a request's body may take, and what is
// left at its end: 408 beyond. It never extends http.Server.ReadTimeout, nor a
// deadline that other middleware has set (http.ResponseController.SetReadDeadline).
// It panics if d is not positive. Default [httpmw.DefaultBodyTimeout], 10 s.
func BodyTimeout(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: idempotent.BodyTimeout(%v) can't be meant: give a positive "+
			"duration, such as httpmw.DefaultBodyTimeout", d))
	}
	return func(s *settings) { s.bodyTimeout = d }
}

// MaxWaiters bounds how many requests with one key wait for its answer in this process
// ([WaitForAnswer]), behind the one that is being carried out; one more is answered with 503 at
// once. It panics if n is below 1. Default [httpmw.DefaultMaxWaiters], 100.
func MaxWaiters(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxWaiters(%d) can't be meant: give at least 1, "+
			"or leave out WaitForAnswer so that none waits", n))
	}
	return func(s *settings) { s.MaxWaiters = n }
}

// RetryAfter sets about what Retry-After says: a random duration between half of d and one and a
// half, rounded up to whole seconds, so that clients refused together do not come back together.
// Default lockmw.RetryIn: a second, five if the store was down, and longer for a request that has
// been under way for long. It panics if d is not positive.
func RetryAfter(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: idempotent.RetryAfter(%v) can't be meant: give a positive "+
			"duration, such as a second", d))
	}
	return func(s *settings) { s.retryIn = d }
}

// OnBusy answers when the request is being carried out already, or when
// too many wait for its answer: renewer.ErrHeld or renewer.ErrQueueFull.
// Default [httpmw.Respond]. It panics if respond is nil.
func OnBusy(respond httpmw.Responder) Option {
	needs("OnBusy", respond)
	return func(s *settings) { s.onBusy = respond }
}

// OnError answers a request that does not run for any other reason: a bad key or body, another
// request's key, a caller that has used up a quota, a store that does not answer, a keeper that is
// shut down, a deadline that has passed. It is not called when the client has gone. Default
// [httpmw.Respond]. It panics if respond is nil.
func OnError(respond httpmw.Responder) Option {
	needs("OnError", respond)
	return func(s *settings) { s.onError = respond }
}

func needs(option string, respond httpmw.Responder) {
	if respond == nil {
		panic("lockbeat: idempotent." + option + " needs a responder such as httpmw.Respond")
	}
}
