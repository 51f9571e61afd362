package idempotent

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// Config says what one [Middleware] does. Caller is required; the zero value of each other field is
// its default. Package grpcmw's IdempotentConfig has the same fields for calls.
type Config struct {
	// Caller says who sends a request, such as the authenticated user or the tenant: two callers
	// may use the same key. It must tell tenants apart too. It is hashed before it leaves the
	// process, and called concurrently. An empty caller and an error are answered with 400, or as
	// an [*httpmw.Error] says.
	Caller httpmw.KeyFunc

	// Lock names the lock that the handler runs under, as for [httpmw.Exclusive]: by
	// [httpmw.PathInt], say. A request with a new key waits for it for 10 s at most, before the
	// transaction of a Recorder begins. Then the answer is 503, or 429 of a limit, and the request
	// is as new when it is sent again. The lock is free when the answer is on record, and the
	// transaction committed. A stored answer needs no lock. Don't put [httpmw.Exclusive] inside
	// where there is a transaction: it would wait in that. It may be called concurrently. Default
	// nil: none.
	Lock httpmw.KeyFunc
	// Scope tells callers with the same ID apart: the same caller and key in another scope are
	// another request. Give each service that shares a Redis a scope, such as its name. Give two
	// handlers a scope each if the same ID means another caller to them. A store prefix for each
	// service (redisstore.Prefix) does it as well, and keeps their locks apart too. With another
	// scope all keys are new. Default "".
	Scope string
	// KeyOptional lets requests without an Idempotency-Key through, as if there were no guard.
	// Default: they are answered with 400.
	KeyOptional bool
	// MaxBody bounds a request's body, in bytes: 413 beyond. All of it is read first, into memory.
	// Default 1 MiB.
	MaxBody int64
	// Operation names the work: a static name such as "order", which requests that wait can read,
	// and telemetry shows. Default: the route's pattern, r.Pattern.
	Operation string
	// OnRefused answers a request whose handler has not run, or whose answer counts for nothing:
	// another one with the key is being carried out, a bad key or body, another request's key, a
	// quota that is used up, a store that does not answer, a lock that was lost. When the client
	// has gone, what it writes reaches nobody. Default [httpmw.Respond].
	OnRefused httpmw.Responder

	// WaitForAnswer is for how long a request waits while another with the same key is being
	// carried out, and at most until a margin before a deadline of other middleware
	// (lockmw.AnswerBy). Then it gets the answer of that one, or is carried out itself if that one
	// came to nothing. In one process 100 requests wait for one; further ones are answered with
	// 503. Default: no waiting, 409.
	WaitForAnswer time.Duration
	// FinishWithin is how long a handler may go on when its client has gone, or when a deadline of
	// other middleware has passed. After that its context ends. Give more for a handler that needs
	// longer, and less than 0 for one that undoes what it has begun when its context ends, which it
	// does with its client then. Default 1 min.
	FinishWithin time.Duration
	// MaxHold bounds how long a request keeps the lock of its key, its wait for Lock included, and
	// how long it keeps Lock, in place of renewer.Config.MaxHold: after that another request with
	// its key may run the handler, so give more than a handler takes. It
	// can't be less than one renewer.Config.Heartbeat, but less than 0: no bound. Default: the
	// keeper's bound.
	MaxHold time.Duration

	// MaxRunningPerCaller bounds how many requests of one caller are being carried out at once in
	// this process, for each call of [Middleware]. A request with a new key beyond that is answered
	// with 429 and Retry-After, at once or, with Lock, when it has that; its handler does not run,
	// and nothing is stored: [ErrQuota]. Stored answers are still replayed, and requests that wait
	// for another's answer do not count.
	//
	// It is what bounds requests whose clients have gone: they go on (FinishWithin), each with its
	// body in memory, and by HTTP/2 without a connection. Give more where a caller is many clients,
	// such as a tenant. Default 64: more than one user's clients send at once, and with bodies of
	// 1 MiB no more than 64 MiB.
	MaxRunningPerCaller int
	// MaxStored bounds what one caller may fill the store with: this many bytes of stored answers
	// at once, and as many again in each KeepAnswer, evenly. When a caller has used that up, its
	// requests with new keys are answered with 429 and Retry-After: [ErrQuota]. Their handler does
	// not run, and nothing is stored. Answers that are stored are still replayed.
	//
	// An answer counts with its stored form and 600 bytes for its keys: by default that is 90,000
	// short answers at once and one a second from then on, or 1,000 of the largest. A request that
	// is being carried out counts with MaxAnswer until it is done. Each process counts by itself,
	// for each call of [Middleware]. So one caller can take at most 2.5 times as much of Redis in
	// each, which includes what Redis rounds up. A process remembers 65,536 callers; of more it
	// forgets one that has used little.
	//
	// Give more where a caller is many clients, such as a tenant: math.MaxInt64 is no bound.
	// Default 64 MiB.
	MaxStored int64
	// MaxAnswer bounds a stored answer, in bytes of JSON, in which a body takes a third more. It
	// also bounds what a request keeps in memory. A larger answer reaches the first client, as the
	// handler writes it, and can't be replayed: a request that is sent again gets a 409, and the
	// handler does not run again, unless the lock was lost while it ran. With a transaction it is
	// rolled back, and is not sent: see Recorder. Default 64 KiB.
	MaxAnswer int

	// KeepAnswer is how long an answer is stored, to be replayed. After that the key is as new.
	// Give longer than clients go on trying. It must be longer than renewer.Config.TTL. Default
	// 24 h.
	KeepAnswer time.Duration
	// KeepStatus says which of the handler's answers are final, by their status: it reports whether
	// such an answer is stored and replayed. Other answers leave no record in the store, and the
	// next request with the key runs the handler again. Refusals by guards, and errors with
	// Retry-After, are never stored. KeepStatus is for handlers whose errors have effects, such as
	// a declined payment that is on record: they keep all, by func(int) bool { return true }. It
	// may be called concurrently. Default: below 400, since an error says that nothing has been
	// done.
	KeepStatus func(status int) bool
	// Recorder keeps the answers, in the place of the keeper's store, which need not keep records
	// then. All servers must give the same.
	//
	// With a [once.Transactional] recorder, such as package sqlrecord's, the handler writes by the
	// recorder's transaction, sqlrecord.Tx(r.Context()). That is committed together with the
	// answer, and the client gets the answer after that. So a request has its effect once, and its
	// answer is on record, or neither is there:
	//
	//   - An answer that is not final (KeepStatus), none, a panic, and the death of the process
	//     roll the transaction back. The next request with the key runs the handler again.
	//   - A final answer that is larger than MaxAnswer is not sent: the handler's Write fails, the
	//     transaction is rolled back, the answer is a 500, and the keeper's observer is told, once.
	//   - A request that loses its lock, and that another one overtakes, is rolled back. It gets
	//     the answer of that other one; 503 if that came to nothing. Its handler does not run
	//     again.
	//   - If it can't be found out whether the transaction was committed, the answer is a 503 that
	//     says so. The client sends the request again, by the same key, and learns it.
	Recorder once.Recorder
	// SealKeys encrypt stored answers by AES-GCM, for a store that other programs can read or
	// write. They can't read an answer, change it, or move it to another caller, key or request.
	// They can still remove it, so that the request is carried out again, or spoil it, so that the
	// request is refused. And they see hashes of the caller and the key, and of the request, by
	// which a guess can be proved.
	//
	// The first key seals, and any of the keys opens. To change keys, give all processes the new
	// one behind the old, then before it, and drop the old one KeepAnswer later.
	//
	// An answer that none of the keys opens is not replayed. Nor is one that is not sealed, such as
	// those stored before there were keys: any program could have put it there. The handler does
	// not run, the answer is a 500, and the keeper's observer is told, once. A sealed answer is 38
	// bytes longer.
	//
	// Keys are 16, 24 or 32 random bytes, for AES-128, -192 or -256; one key is good for 2^32
	// answers. Default nil: answers are stored in clear.
	SealKeys [][]byte
}

// maxWaiters is how many requests wait for the answer of one, in this process.
const maxWaiters = 100

// settings fills in the defaults of what this package alone has, and returns the others.
func (c *Config) settings(k *renewer.Keeper) (set repeat.Settings, err error) {
	if k == nil || c.Caller == nil {
		return set, errors.New("lockbeat: idempotent.Middleware needs a keeper (renewer.New) and " +
			"a Caller, a function that says who sends a request")
	}
	err = repeat.NotNegative("idempotent.Config", map[string]int64{"MaxBody": c.MaxBody})
	if err != nil {
		return set, err
	}
	c.MaxBody = cmp.Or(c.MaxBody, httpguard.DefaultMaxBody)
	if c.OnRefused == nil {
		c.OnRefused = httpmw.Respond
	}
	if c.KeepStatus == nil {
		// An error says that nothing has been done, so the handler may run again. And any client
		// can get errors: stored, each would take space for a day.
		c.KeepStatus = func(status int) bool { return status < http.StatusBadRequest }
	}
	return repeat.Given{
		Scope: c.Scope, WaitForAnswer: c.WaitForAnswer, FinishWithin: c.FinishWithin,
		MaxHold: c.MaxHold, MaxRunningPerCaller: c.MaxRunningPerCaller, MaxStored: c.MaxStored,
		MaxAnswer: c.MaxAnswer, KeepAnswer: c.KeepAnswer, Recorder: c.Recorder,
		SealKeys: c.SealKeys,
	}.Settings("idempotent.Config", maxWaiters)
}
