package idempotent

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// Config says what one [Middleware] does. Caller is required; the zero value of
// each other field is its default. Its functions may be called concurrently.
type Config struct {
	// Caller says who sends a request, such as the authenticated user or the
	// tenant: two callers may use the same key. It must tell tenants apart too.
	// An empty one is answered with 400. It is hashed before it leaves the
	// process.
	Caller func(*http.Request) string
	// Lock names the locks that the handler runs under, such as
	// httpmw.PathInt("account", "id"). A request whose key is new waits for
	// them for 10 s, before the transaction of a Recorder begins; then the
	// answer is 503, or 429 of a limit, and the key is as new. They are free
	// when the answer is on record, and the transaction committed. A stored
	// answer needs none. (httpmw.Middleware further in would wait in the
	// transaction, with a connection that the lock's holder may need.) Default:
	// none.
	Lock func(*http.Request) lockmw.Set
	// Scope tells callers with the same ID apart: the same caller and key in
	// another scope are another request. Give each service that shares a store
	// one, such as its name, unless it has a prefix of its own
	// (redisstore.Prefix). Default "".
	Scope string
	// KeyOptional lets requests without an Idempotency-Key through. Default: 400.
	KeyOptional bool
	// MaxBody bounds a request's body, in bytes, which is read first: 413
	// beyond. Default 1 MiB.
	MaxBody int64
	// Operation names the work: see lockmw.Operation. Default: the route's
	// pattern, r.Pattern.
	Operation string
	// OnRefused answers a request whose handler has not run, or counts for
	// nothing. Default [httpmw.Respond].
	OnRefused httpmw.Responder

	// WaitForAnswer is for how long a request waits while another with the same
	// key is being carried out, and at most until a margin before a deadline of
	// other middleware. Then it gets the answer of that one, or is carried out
	// itself if that one came to nothing. In one process 100 wait for one;
	// further ones are answered with 503. Default: no waiting, 409.
	WaitForAnswer time.Duration
	// FinishWithin is how long a handler may go on when its client has gone, or
	// a deadline of other middleware has passed; then its context ends. Default
	// 1 min.
	FinishWithin time.Duration
	// EndWithClient ends the handler's context then: for one that undoes what
	// it has begun.
	EndWithClient bool
	// MaxHold bounds how long a request keeps the lock of its key, and Lock, in
	// place of renewer.Config.MaxHold: see lockmw.MaxHold. After that another
	// request with its key may run the handler, so give more than Lock's wait
	// and the handler take. Default: the keeper's.
	MaxHold time.Duration

	// MaxRunningPerCaller bounds how many requests of one caller are being carried
	// out at once in this process: one more with a new key is answered with 429,
	// [ErrQuota]. Give more where a caller is many clients, such as a tenant. Default
	// 64.
	MaxRunningPerCaller int64
	// MaxStored bounds what one caller may fill the store with: so many bytes
	// of answers at once, and as many again in each KeepAnswer, evenly. Then
	// its requests with new keys are answered with 429, [ErrQuota]; stored
	// answers are replayed. It is counted in each process, with 600 bytes for
	// an answer's keys. Default 64 MiB: 90,000 short answers, and one a second.
	MaxStored int64
	// MaxAnswer bounds a stored answer, in bytes of JSON, in which a body takes
	// a third more. A larger one goes out as the handler writes it, and can't
	// be replayed: a request that is sent again gets a 409. In a transaction it
	// is rolled back: see Recorder. Default 64 KiB.
	MaxAnswer int

	// KeepAnswer is how long an answer is stored; then the key is as new. Give
	// longer than clients go on trying, and than renewer.Config.TTL. Default 24
	// h.
	KeepAnswer time.Duration
	// KeepStatus reports whether answers of a status are final, and so stored and
	// replayed. Refusals by guards, and errors with Retry-After, never are. Give
	// func(int) bool { return true } to a handler whose errors have effects, such as
	// a declined payment that is on record. Default: below 400.
	KeepStatus func(status int) bool
	// Recorder keeps the answers, in place of the keeper's store. All servers
	// must give the same.
	//
	// With a [once.Transactional] one, such as sqlrecord.PostgreSQL(db), the
	// handler writes by its transaction, sqlrecord.Tx(r.Context()), which is
	// committed with the answer before the client gets that: the effect and the
	// answer are there, or neither is.
	//
	//   - An answer that is not final, none, and a panic roll it back; so does a final
	//     one above MaxAnswer: 500, and the observer is told.
	//   - A request that lost its lock is rolled back, and gets the answer of the one
	//     that took over, or 503.
	//   - If it is not known whether it was committed, the answer is a 503 that says so.
	Recorder once.Recorder
	// SealKeys encrypt stored answers by AES-GCM, each a key of 16, 24 or 32
	// random bytes, good for 2^32 answers, for a store that other programs can
	// read or write: they can remove or spoil an answer, and no more.
	//
	// The first seals, and any of them opens. To change keys, give all
	// processes the new one behind the old, then before it, and drop the old
	// one KeepAnswer later. An answer that none opens is 500, and the observer
	// is told. Default: in clear.
	SealKeys [][]byte
}

// maxWaiters is how many requests wait for the answer of one, in this process.
const maxWaiters = 100

// settings fills in the defaults of what this package alone has, and returns
// the others.
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
		// An error says that nothing has been done, so the handler may run
		// again. And any client can get errors: stored, each would take space
		// for a day.
		c.KeepStatus = func(status int) bool { return status < http.StatusBadRequest }
	}
	return repeat.Given{
		Scope: c.Scope, WaitForAnswer: c.WaitForAnswer, FinishWithin: c.FinishWithin,
		EndWithClient: c.EndWithClient, MaxHold: c.MaxHold,
		MaxRunningPerCaller: c.MaxRunningPerCaller, MaxStored: c.MaxStored,
		MaxAnswer: c.MaxAnswer, KeepAnswer: c.KeepAnswer, Recorder: c.Recorder,
		SealKeys: c.SealKeys,
	}.Settings("idempotent.Config", maxWaiters)
}
