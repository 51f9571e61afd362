package grpcmw

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// IdempotentConfig says what one [Idempotent] does. Caller and Methods are required; the zero
// value of each other field is its default, and lockmw.NoBound is no bound. Its fields are
// those of package idempotent's Config, which says more.
type IdempotentConfig struct {
	// Caller says who makes a call: an account that an interceptor further out has checked. It
	// must tell tenants apart too. It is hashed before it leaves the process, and called
	// concurrently. A call for which it is empty is codes.InvalidArgument.
	Caller func(ctx context.Context) string
	// Methods are the unary methods whose calls are carried out once, by their full names.
	Methods []string

	// Locks are rules ([ForMethod] and the like) for those of Methods whose handlers run under
	// a lock, and options for these locks: as for [UnaryServerInterceptor], but for
	// [MaxWaitersPerCaller], [Silence] and those of fencing tokens. A call with a new key waits
	// for its lock before the transaction of a Recorder begins; one that is refused is as new
	// when it is sent again. The lock is free when the reply is on record. Don't put
	// [UnaryServerInterceptor] inside where there is a transaction. Default: none.
	Locks []Option
	// Scope tells callers with the same ID apart: give each service that shares a store one.
	// Default "".
	Scope string
	// KeyOptional lets calls without an idempotency-key pass through. Default: they are
	// codes.InvalidArgument.
	KeyOptional bool

	// WaitForAnswer is for how long a call waits while another with the same key is being
	// carried out, and at most until a margin before its own deadline. In one process at most
	// 100 wait for one key. Default: no waiting, codes.Aborted with LOCK_BUSY.
	WaitForAnswer time.Duration
	// FinishWithin is how long a handler may go on when its call has ended: by its deadline, or
	// since the client has gone. After that its context ends. Default 1 min.
	FinishWithin time.Duration
	// EndWithClient ends a handler's context with the call, rather than FinishWithin later: for
	// one that undoes what it has begun then.
	EndWithClient bool
	// MaxHold bounds the lock of a key, its wait for one of Locks included, and that one, in
	// place of renewer.Config.MaxHold: give more than a handler takes. Default: the keeper's
	// bound.
	MaxHold time.Duration

	// MaxRunningPerCaller bounds how many calls of one caller are being carried out at once in
	// this process. One with a new key beyond that is codes.ResourceExhausted with
	// CALLER_QUOTA, and nothing is stored. It bounds calls whose clients have gone, too.
	// Default 64.
	MaxRunningPerCaller int64
	// MaxStored bounds what one caller may fill the store with: this many bytes of stored
	// replies at once, and as many again in each KeepAnswer, evenly. Beyond that its calls with
	// new keys are codes.ResourceExhausted with CALLER_QUOTA. A reply counts with 600 bytes for
	// its keys, in each process by itself. Default 64 MiB.
	MaxStored int64
	// MaxAnswer bounds a stored reply, in bytes. A larger one reaches the first client and
	// can't be replayed: a call that is sent again is codes.AlreadyExists, and the handler does
	// not run again. With a transaction it is rolled back: see Recorder. Default 64 KiB.
	MaxAnswer int

	// KeepAnswer is how long a reply is stored, to be replayed. After that the key is as new.
	// It must be longer than renewer.Config.TTL. Default 24 h.
	KeepAnswer time.Duration
	// Recorder keeps the replies, in the place of the keeper's store. All servers must give the
	// same. With a once.Transactional one, such as package sqlrecord's, the handler runs in a
	// transaction in which its reply is recorded: both are committed, or neither. An error
	// rolls it back; so does a reply that is too large or can't be encoded, which is
	// codes.Internal. A conflict with another transaction is codes.Aborted with LOCK_BUSY; a
	// lock that is lost is codes.Aborted with LOCK_LOST, unless the call that took over has a
	// reply. If it can't be found out whether it was committed, the call is codes.Unavailable
	// with IDEMPOTENCY_UNKNOWN: send it again.
	Recorder once.Recorder
	// SealKeys encrypt stored replies by AES-GCM, for a store that other programs can read or
	// write. The first key seals, and any of them opens. To change keys, give all processes the
	// new one behind the old, then before it, and drop the old one KeepAnswer later. A reply
	// that none opens is codes.Internal: the handler does not run. Keys are 16, 24 or 32 random
	// bytes. Default nil: replies are stored in clear.
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
		EndWithClient: c.EndWithClient, MaxHold: c.MaxHold,
		MaxRunningPerCaller: c.MaxRunningPerCaller, MaxStored: c.MaxStored, MaxAnswer: c.MaxAnswer,
		KeepAnswer: c.KeepAnswer, Recorder: c.Recorder,
		SealKeys: c.SealKeys,
	}.Settings("grpcmw.IdempotentConfig", defaultMaxWaiters)
}
