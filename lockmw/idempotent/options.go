package idempotent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// Option says what one [Middleware] does. Of two that contradict each
// other the later one counts. An option panics if it is given what can't
// be meant, such as a negative duration: programs call it when they start.
type Option func(*settings)

type settings struct {
	repeat.Settings

	operation   string // "": the route
	keyOptional bool
	maxBody     int64
	keepStatus  func(status int) bool
	respond     httpmw.Responder
}

func newSettings() settings {
	return settings{
		Settings: repeat.Defaults(maxWaiters), maxBody: httpguard.DefaultMaxBody,
		// An error says that nothing has been done, so the handler may run again. And any client
		// can get errors: stored, each would take space for a day.
		keepStatus: func(status int) bool { return status < http.StatusBadRequest },
		respond:    httpmw.Respond,
	}
}

// maxWaiters is how many requests wait for the answer of one, in this process.
const maxWaiters = 100

// operationOr is the name of the work, by default the route.
func (s *settings) operationOr(route string) string {
	if s.operation == "" {
		return route
	}
	return s.operation
}

// needs panics if an option is given what can't be meant.
func needs(meant bool, option string, value any, want string) {
	if !meant {
		panic(fmt.Sprintf("lockbeat: idempotent.%s(%v) can't be meant: give %s",
			option, value, want))
	}
}

// Scope tells callers with the same ID apart: the same caller and key in another
// scope are another request. Give each service that shares a Redis a scope, such as
// its name. Give two handlers a scope each if the same ID means another caller to
// them. A store prefix for each service (redisstore.Prefix) does it as well, and
// keeps their locks apart too. With another scope all keys are new. Default "".
func Scope(scope string) Option {
	return func(s *settings) { s.Scope = scope }
}

// KeyOptional lets requests without an Idempotency-Key through, as if there were no guard. Default:
// they are answered with 400.
func KeyOptional() Option {
	return func(s *settings) { s.keyOptional = true }
}

// MaxBody bounds a request's body to n bytes: 413 beyond. All of it is read first,
// into memory. It panics if n is below 1. Default 1 MiB.
func MaxBody(n int64) Option {
	needs(n > 0, "MaxBody", n, "a number of bytes")
	return func(s *settings) { s.maxBody = n }
}

// Operation names the work: a static name such as "order", which requests that wait can read, and
// telemetry shows. Default: the route's pattern, r.Pattern.
func Operation(name string) Option {
	return func(s *settings) { s.operation = name }
}

// WaitForAnswer has a request wait for at most d while another with the same key is being carried
// out, and at most until a margin before a deadline of other middleware (lockmw.AnswerBy). Then it
// gets the answer of that one, or is carried out itself if that one came to nothing. In one process
// 100 requests wait for one; further ones are answered with 503. It panics if d is not positive.
// Default: no waiting, 409.
func WaitForAnswer(d time.Duration) Option {
	needs(d > 0, "WaitForAnswer", d, "a positive duration, or leave it out so as not to wait")
	return func(s *settings) { s.WaitForAnswer = d }
}

// FinishWithin is how long a handler may go on when its client has gone, or when a
// deadline of other middleware has passed. After that its context ends. Give more for
// a handler that needs longer, and 0 for a handler that undoes what it has begun when
// its context ends. It panics if d is negative. Default 1 min.
func FinishWithin(d time.Duration) Option {
	needs(d >= 0, "FinishWithin", d, "a duration, or 0 so that a handler ends with its client")
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
// 429 and Retry-After at once, its handler does not run, and nothing is stored: [ErrQuota].
// Stored answers are still replayed, and requests that wait for another's answer do not count.
//
// It is what bounds requests whose clients have gone: they go on ([FinishWithin]), each with its
// body in memory, and by HTTP/2 without a connection. Give more where a caller is many clients,
// such as a tenant. It panics if n is below 1. Default 64: more than one user's clients send at
// once, and with bodies of 1 MiB no more than 64 MiB.
func MaxRunningPerCaller(n int) Option {
	needs(n > 0, "MaxRunningPerCaller", n, "at least 1")
	return func(s *settings) { s.MaxRunning = n }
}

// KeepAnswer is how long an answer is stored, to be replayed. After d the key is as
// new. Give longer than clients go on trying. It must be longer than
// renewer.Config.TTL: otherwise [Middleware] panics. Default 24 h.
func KeepAnswer(d time.Duration) Option {
	return func(s *settings) { s.KeepAnswer = d }
}

// KeepStatus says which of the handler's answers are final, by their status: keep
// reports whether such an answer is stored and replayed. Other answers leave no record
// in the store, and the next request with the key runs the handler again. Refusals by
// guards, and errors with Retry-After, are never stored. KeepStatus is for handlers
// whose errors have effects, such as a declined payment that is on record: they keep
// all, by func(int) bool { return true }. keep may be called concurrently. It panics
// if keep is nil. Default: below 400, since an error says that nothing has been done.
func KeepStatus(keep func(status int) bool) Option {
	needs(keep != nil, "KeepStatus", "nil", "a function")
	return func(s *settings) { s.keepStatus = keep }
}

// MaxAnswer bounds a stored answer to n bytes of JSON, in which a body takes a third more. It also
// bounds what a request keeps in memory. A larger answer reaches the first client, as the handler
// writes it, and can't be replayed: a request that is sent again gets a 409, and the handler does
// not run again, unless the lock was lost while it ran. With [RecordIn] it may be rolled back, and
// is not sent: see there. It panics if n is below 1. Default 64 KiB.
func MaxAnswer(n int) Option {
	needs(n > 0, "MaxAnswer", n, "a number of bytes")
	return func(s *settings) { s.MaxAnswer = n }
}

// MaxStored bounds what one caller may fill the store with: n bytes of stored answers at once, and
// as many again in each [KeepAnswer], evenly. When a caller has used that up, its requests with new
// keys are answered with 429 and Retry-After: [ErrQuota]. Their handler does not run, and nothing
// is stored. Answers that are stored are still replayed.
//
// An answer counts with its stored form and 600 bytes for its keys: by default that
// is 90,000 short answers at once and one a second from then on, or 1,000 of the
// largest. A request that is being carried out counts with [MaxAnswer] until it is
// done. Each process counts by itself, for each call of [Middleware]. So one caller
// can take at most 2.5 times n of Redis in each, which includes what Redis rounds up.
// A process remembers 65,536 callers; of more it forgets one that has used little.
//
// Give more where a caller is many clients, such as a tenant: math.MaxInt64 is no bound. It panics
// if n is below 1. Default 64 MiB.
func MaxStored(n int64) Option {
	needs(n > 0, "MaxStored", n, "a number of bytes")
	return func(s *settings) { s.MaxStored = n }
}

// RecordIn has recorder keep the answers, in the place of the keeper's store, which need not keep
// records then. All servers must give the same.
//
// With a [once.Transactional] recorder, such as package sqlrecord's, the handler
// writes by the recorder's transaction, sqlrecord.Tx(r.Context()). That is
// committed together with the answer, and the client gets the answer after that. So
// a request has its effect once, and its answer is on record, or neither is there:
//
//   - An answer that is not final ([KeepStatus]), none, a panic, and the death of the process roll
//     the transaction back. The next request with the key runs the handler again.
//   - A final answer that is larger than [MaxAnswer] is not sent: the handler's Write fails, the
//     transaction is rolled back, the answer is a 500, and the keeper's observer is told, once.
//   - A request that loses its lock, and that another one overtakes, is rolled back. It gets the
//     answer of that other one; 503 if that came to nothing. Its handler does not run again.
//   - If it can't be found out whether the transaction was committed, the answer is a 503 that says
//     so. The client sends the request again, by the same key, and learns it.
//
// It panics if recorder is nil. Default: the keeper's store.
func RecordIn(recorder once.Recorder) Option {
	needs(recorder != nil, "RecordIn", "nil", "a recorder, such as that of sqlrecord.PostgreSQL")
	return func(s *settings) { s.Recorder = recorder }
}

// Seal encrypts stored answers by AES-GCM, for a store that other programs can
// read or write. They can't read an answer, change it, or move it to another
// caller, key or request. They can still remove it, so that the request is carried
// out again, or spoil it, so that the request is refused. And they see hashes of
// the caller and the key, and of the request, by which a guess can be proved.
//
// The first key seals, and any of the keys opens. To change keys, give all processes the new one
// behind the old, then before it, and drop the old one [KeepAnswer] later.
//
// An answer that none of the keys opens is not replayed. Nor is one that is
// not sealed, such as those stored before Seal was given: any program could
// have put it there. The handler does not run, the answer is a 500, and the
// keeper's observer is told, once. A sealed answer is 38 bytes longer.
//
// Keys are 16, 24 or 32 random bytes, for AES-128, -192 or -256; one key is good for 2^32 answers.
// It panics without a key, or with one of another length. Default: answers are stored in clear.
func Seal(keys ...[]byte) Option {
	sealer, err := repeat.NewSealer("idempotent.Seal", keys)
	if err != nil {
		panic(err.Error())
	}
	return func(s *settings) { s.Seal = sealer }
}

// OnRefused answers a request whose handler has not run, or whose answer counts for nothing:
// another one with the key is being carried out, a bad key or body, another request's key, a quota
// that is used up, a store that does not answer, a lock that was lost. It is not called when the
// client has gone. Default [httpmw.Respond]. It panics if respond is nil.
func OnRefused(respond httpmw.Responder) Option {
	needs(respond != nil, "OnRefused", "nil", "a responder such as httpmw.Respond")
	return func(s *settings) { s.respond = respond }
}
