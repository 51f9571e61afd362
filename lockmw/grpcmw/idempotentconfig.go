package grpcmw

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// IdempotentConfig says what one [Idempotent] does. Caller and Methods are required; the zero value
// of each other field is its default.
type IdempotentConfig struct {
	// Caller says who makes a call: an account that an interceptor further out has checked. It must
	// tell tenants apart too. It is hashed before it leaves the process, and called concurrently. A
	// call for which it is empty is codes.InvalidArgument.
	Caller func(ctx context.Context) string
	// Methods are the unary methods whose calls are carried out once, by their full names.
	Methods []string

	// Locks are rules ([ForMethod] and the like) for those of Methods whose handlers run under a
	// lock, and options for these locks: as for [UnaryServerInterceptor], but for
	// [MaxWaitersPerCaller], [Silence] and those of fencing tokens. A call with a new key waits for
	// its lock before the transaction of a Recorder begins. One that is refused is as new when it
	// is sent again. The lock is free when the reply is on record, and the transaction committed. A
	// stored reply needs no lock. Don't put [UnaryServerInterceptor] inside where there is a
	// transaction: it would wait in that. Default: none.
	Locks []Option
	// Scope tells callers with the same ID apart: the same caller and key in another scope are
	// another call. Give each service that shares a Redis a scope, such as its name, unless it has
	// a store prefix of its own (redisstore.Prefix). With another scope all keys are new.
	// Default "".
	Scope string
	// KeyOptional lets calls without an idempotency-key pass through. Default: they are
	// codes.InvalidArgument.
	KeyOptional bool

	// WaitForAnswer is for how long a call waits while another with the same key is being carried
	// out, and at most until a margin before its own deadline. Then it gets the
	// reply of that one, or is carried out itself if that one came to nothing. In one process at
	// most 100 wait for one key. Default: no waiting, codes.Aborted with LOCK_BUSY.
	WaitForAnswer time.Duration
	// FinishWithin is how long a handler may go on when its call has ended: by its deadline, or
	// since the client has gone. After that its context ends. Default 1 min.
	FinishWithin time.Duration
	// EndWithClient ends a handler's context with the call, rather than FinishWithin later: for one
	// that undoes what it has begun then.
	EndWithClient bool
	// MaxHold bounds the lock of a key, its wait for one of Locks included, and that one, in place
	// of renewer.Config.MaxHold: after that another call with the key may run the handler, so give
	// more than a handler takes. lockmw.NoBound: no bound. Default: the keeper's bound.
	MaxHold time.Duration

	// MaxRunningPerCaller bounds how many calls of one caller are being carried out at once in this
	// process. A call with a new key beyond that is codes.ResourceExhausted with CALLER_QUOTA, at
	// once or, with Locks, when it has these; its handler does not run, and nothing is stored.
	// Replies that are stored are still replayed, and calls that wait for another's do not count.
	//
	// It is what bounds calls whose clients have gone: they go on (FinishWithin), each with its
	// message in memory, and without a connection. Give more where a caller is many clients, such
	// as a tenant. Default 64: more than one user's clients send at once.
	MaxRunningPerCaller int
	// MaxStored bounds what one caller may fill the store with: this many bytes of stored replies
	// at once, and as many again in each KeepAnswer, evenly. When a caller has used that up, its
	// calls with new keys are codes.ResourceExhausted with CALLER_QUOTA, and their handler does not
	// run. Stored replies are still replayed. A reply counts with its stored form and 600 bytes for
	// its keys, in each process by itself. lockmw.NoBound is no bound. Default 64 MiB.
	MaxStored int64
	// MaxAnswer bounds a stored reply, in bytes. A larger one reaches the first client and can't be
	// replayed: a call that is sent again is codes.AlreadyExists, and the handler does not run
	// again. With a transaction it is rolled back: see Recorder. Default 64 KiB.
	MaxAnswer int

	// KeepAnswer is how long a reply is stored, to be replayed. After that the key is as new. Give
	// longer than clients go on trying. It must be longer than renewer.Config.TTL. Default 24 h.
	KeepAnswer time.Duration
	// Recorder keeps the replies, in the place of the keeper's store, which need not keep records
	// then. All servers must give the same.
	//
	// With a once.Transactional recorder, such as package sqlrecord's, the handler runs in a
	// transaction, in which its reply is recorded: both are committed, or neither. An error rolls
	// the transaction back. So does a reply that has outgrown MaxAnswer or can't be encoded: the
	// call is codes.Internal, and the keeper's observer is told, once. A call whose transaction
	// was in conflict with another one is codes.Aborted with LOCK_BUSY and RetryInfo. One that
	// loses its lock, and that another call overtakes, gets the reply of that one; codes.Aborted
	// with LOCK_LOST if that came to nothing. If it can't be found out whether the transaction
	// was committed, the call is codes.Unavailable with IDEMPOTENCY_UNKNOWN: sent again with the
	// same key it gets the reply, or is carried out.
	Recorder once.Recorder
	// SealKeys encrypt stored replies by AES-GCM, for a store that other programs can read or
	// write. They can't read a reply, change it, or move it to another caller, key or request. The
	// first key seals, and any of the keys opens. To change keys, give all processes the new one
	// behind the old, then before it, and drop the old one KeepAnswer later. A reply that none of
	// the keys opens, or that is not sealed, is codes.Internal: the handler does not run, and the
	// keeper's observer is told, once.
	//
	// Keys are 16, 24 or 32 random bytes, for AES-128, -192 or -256; one key is good for 2^32
	// replies. Default nil: replies are stored in clear.
	SealKeys [][]byte
}

func (c *IdempotentConfig) settings(k *renewer.Keeper) (repeat.Settings, error) {
	if k == nil || c.Caller == nil || len(c.Methods) == 0 {
		return repeat.Settings{}, errors.New("lockbeat: grpcmw.Idempotent needs a keeper " +
			"(renewer.New), a Caller that says who calls, and the Methods that are to be carried " +
			"out once")
	}
	return repeat.Given{
		Scope: c.Scope, WaitForAnswer: c.WaitForAnswer, FinishWithin: c.FinishWithin,
		EndWithClient: c.EndWithClient,
		MaxHold:       c.MaxHold, MaxRunningPerCaller: c.MaxRunningPerCaller, MaxStored: c.MaxStored,
		MaxAnswer: c.MaxAnswer, KeepAnswer: c.KeepAnswer, Recorder: c.Recorder,
		SealKeys: c.SealKeys,
	}.Settings("grpcmw.IdempotentConfig", defaultMaxWaiters)
}
