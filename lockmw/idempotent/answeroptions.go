package idempotent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// KeepAnswer is how long an answer is stored, to be replayed. After d the key is as
// new. Give longer than clients go on trying. It must be longer than
// renewer.Config.TTL: otherwise [Middleware] panics. Default [DefaultKeepAnswer], 24 h.
func KeepAnswer(d time.Duration) Option {
	return func(s *settings) { s.KeepAnswer = d }
}

// MaxAnswer bounds a stored answer to n bytes of JSON, in which a body takes a third more. It also
// bounds what a request keeps in memory. A larger answer reaches the first client, as the handler
// writes it, and can't be replayed: a request that is sent again gets a 409, and the handler does
// not run again, unless the lock was lost while it ran. With [RecordIn] it may be rolled back, and
// is not sent: see there. It panics if n is below 1. Default [DefaultMaxAnswer], 64 KiB.
func MaxAnswer(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxAnswer(%d) can't be meant: give a number of "+
			"bytes, such as idempotent.DefaultMaxAnswer", n))
	}
	return func(s *settings) { s.MaxAnswer = n }
}

// KeepStatus says which of the handler's answers are final, by their status: keep
// reports whether such an answer is stored and replayed. Other answers leave no record
// in the store, and the next request with the key runs the handler again. Refusals by
// guards, and errors with Retry-After, are never stored. KeepStatus is for handlers
// whose errors have effects, such as a declined payment that is on record: they keep
// all, by func(int) bool { return true }. keep may be called concurrently. It panics
// if keep is nil. Default: below 400, since an error says that nothing has been done.
func KeepStatus(keep func(status int) bool) Option {
	if keep == nil {
		panic("lockbeat: idempotent.KeepStatus needs a function that reports whether answers " +
			"with a status are stored")
	}
	return func(s *settings) { s.keepStatus = keep }
}

// MaxStored bounds what one caller may fill the store with: n bytes of stored answers at once, and
// as many again in each [KeepAnswer], evenly. When a caller has used that up, its requests with new
// keys are answered with 429 and Retry-After. Their handler does not run, and nothing is stored.
// Answers that are stored are still replayed.
//
// An answer counts with its stored form and 600 bytes for its keys: by default that
// is 90,000 short answers at once and one a second from then on, or 1,000 of the
// largest. A request that is being carried out counts with [MaxAnswer] until it is
// done. Each process counts by itself, for each call of [Middleware]. So one caller
// can take at most 2.5 times n of Redis in each, which includes what Redis rounds up.
// A process remembers 65,536 callers; of more it forgets one that has used little.
//
// Give more where a caller is many clients, such as a tenant: math.MaxInt64 is no bound. It panics
// if n is below 1. Default [DefaultMaxStored], 64 MiB.
func MaxStored(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxStored(%d) can't be meant: give a number of "+
			"bytes, such as idempotent.DefaultMaxStored", n))
	}
	return func(s *settings) { s.MaxStored = n }
}

// OnlyRecorded sends no final answer that is not on record: where the store does not answer for
// renewer.Config.TTL after the handler has, the answer is a 503 ([httpmw.TypeUnknown]). The client
// sends the request again, by the same key. It gets the answer if that is on record after all;
// otherwise the handler runs again, since the record alone could have kept it from that. So all who
// send the request get one answer. An answer that outgrows [MaxAnswer] has gone out by then.
//
// The keeper's observer is told of each answer that is not on record, with OnlyRecorded and
// without. With [RecordIn] and a transaction no other answers go out anyway. Default: the first
// client gets the handler's answer all the same.
func OnlyRecorded() Option {
	return func(s *settings) { s.OnlyRecorded = true }
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
	if recorder == nil {
		panic("lockbeat: idempotent.RecordIn needs a recorder, such as that of sqlrecord.New")
	}
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

// BeforeReplay puts mw before stored answers. A stored answer is sent without the handler, and so
// without what the handler checks: a caller whose rights were revoked gets it for as long as
// [KeepAnswer] says. Where authorization stands outside of [Middleware] it decides on each request,
// and BeforeReplay is not needed. Elsewhere give the authorization as mw.
//
// All answers in place of the handler's go through mw: stored answers, and refusals that
// show that a key is known (409, 422) or that a quota is used up (429). mw itself answers
// what it refuses, and nothing of the record goes out. The handler does not run behind mw.
//
// mw is called once for each handler. It gets requests with their bodies unread, and must pass them
// on with a context that is made of theirs. The handler that mw returns may be called concurrently.
// It panics if mw is nil, and Middleware's middleware panics if mw returns nil.
func BeforeReplay(mw func(http.Handler) http.Handler) Option {
	if mw == nil {
		panic("lockbeat: idempotent.BeforeReplay needs middleware, such as the one that authorizes")
	}
	return func(s *settings) { s.beforeReplay = mw }
}
