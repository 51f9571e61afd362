package idempotent

import (
	"fmt"
	"net/http"
	"time"
)

// KeepAnswer is how long an answer is kept, to be replayed: after d the key
// is as new. Longer than clients go on trying, and than renewer.Config.TTL;
// [Middleware] panics otherwise. Default [DefaultKeepAnswer], 24 h.
func KeepAnswer(d time.Duration) Option {
	return func(s *settings) { s.keepAnswer = d }
}

// MaxAnswer bounds an answer to n bytes in its stored form, which is JSON: a body takes a third
// more. One that is larger reaches the client that it is for, as the handler writes it, and can't
// be replayed: a request that is sent again gets a 409, and the handler does not run again,
// unless the lock was lost while it ran. It bounds what a request keeps in memory, too. It panics
// if n is below 1. Default [DefaultMaxAnswer], 64 KiB.
func MaxAnswer(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxAnswer(%d) can't be meant: give a number of "+
			"bytes, such as idempotent.DefaultMaxAnswer", n))
	}
	return func(s *settings) { s.maxAnswer = n }
}

// KeepStatus says which of the handler's answers are final, by their status: keep reports whether
// one is stored and replayed. With others the next request with the key runs the handler again,
// and no record stays in the store. Refusals of this package, and errors with Retry-After, are
// never stored. It is for handlers whose errors have effects, such as a declined payment that is
// on record: they keep all, by func(int) bool { return true }. It may be called concurrently. It
// panics if keep is nil. Default: those below 400, since an error says that nothing has been
// done.
func KeepStatus(keep func(status int) bool) Option {
	if keep == nil {
		panic("lockbeat: idempotent.KeepStatus needs a function that reports whether answers with a " +
			"status are stored")
	}
	return func(s *settings) { s.keepStatus = keep }
}

// MaxStored bounds what one caller may fill the store with: n bytes of stored answers at once,
// and as many again in each [KeepAnswer], evenly. A caller that has used it up is answered with
// 429 and Retry-After when its request has a new key, before the handler runs, and no answer is
// stored for it. Answers that are stored are still replayed.
//
// An answer counts with its stored form and 600 bytes for its keys: by default that is 90,000
// short answers at once and one a second from then on, or 1,000 of the largest. A request that is
// being carried out counts with [MaxAnswer] until it is done. Each process counts by itself, for
// each call of [Middleware], and so one caller can take at most 2.5 times n of Redis in each,
// with what Redis rounds up. A process keeps 65,536 callers in mind; of more it forgets one that
// has used little.
//
// Give more where a caller is many clients, such as a tenant: math.MaxInt64 is no bound. It panics
// if n is below 1. Default [DefaultMaxStored], 64 MiB.
func MaxStored(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: idempotent.MaxStored(%d) can't be meant: give a number of "+
			"bytes, such as idempotent.DefaultMaxStored", n))
	}
	return func(s *settings) { s.maxStored = n }
}

// Seal encrypts stored answers by AES-GCM, for a store that others can read or write: they can
// neither read an answer, nor change it, nor move it to another caller, key or request. They can
// still remove it, so that the request is carried out again, or spoil it, so that it is refused,
// and they see hashes of the caller and the key, and of the request, by which a guess can be
// proved.
//
// The first key seals, and any opens: to change keys, give all processes the new one behind the
// old, then before it, and drop the old one [KeepAnswer] later.
//
// An answer that none of the keys opens is not replayed, and nor is one that is not sealed, such
// as those stored before Seal was given: anybody could have put it there. The handler does not
// run; the answer is a 500, and the keeper's observer is told, once. A sealed answer is 38 bytes
// longer.
//
// Keys are 16, 24 or 32 random bytes, for AES-128, -192 or -256; one key is good for 2^32 answers.
// It panics without a key, or with one of another length. Default: answers are stored in clear.
func Seal(keys ...[]byte) Option {
	if len(keys) == 0 {
		panic("lockbeat: idempotent.Seal needs a key of 16, 24 or 32 random bytes")
	}
	s := newSealer(keys)
	return func(set *settings) { set.seal = s }
}

// BeforeReplay puts mw before stored answers. A stored answer is sent without the handler, and so
// without what the handler checks, such as whether the caller may still do this: a caller whose
// rights were revoked gets it for as long as [KeepAnswer] says. Where authorization stands further
// out than [Middleware] it decides on every request, and nothing more is needed. Where it can't,
// give it as mw: then all that is answered in place of the handler goes through it, which is stored
// answers, and refusals that show that a key is known (409, 422) or full (429). What mw refuses it
// answers itself, and nothing of the record goes out. The handler is not behind mw.
//
// mw is called once for each handler, and gets the request with its body unread; it must pass the
// request on with a context that is made of the request's. The handler that mw returns may be
// called concurrently. It panics if mw is nil, and [Middleware]'s middleware if mw returns nil.
func BeforeReplay(mw func(http.Handler) http.Handler) Option {
	if mw == nil {
		panic("lockbeat: idempotent.BeforeReplay needs middleware, such as the one that authorizes")
	}
	return func(s *settings) { s.beforeReplay = mw }
}
