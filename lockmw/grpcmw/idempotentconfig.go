package grpcmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// IdempotentConfig says what one [Idempotent] does. Caller and Methods are
// required; the zero value of each other field is its default. Package
// idempotent's Config says more of the fields that it has too.
type IdempotentConfig struct {
	// Caller says who makes a call, such as the account that an interceptor
	// further out has checked. "" is codes.InvalidArgument.
	Caller func(ctx context.Context) string
	// Methods are the unary methods whose calls are carried out once. Others
	// pass through.
	Methods []string

	// Locks are rules ([ForMethod] and the like) for those of Methods whose
	// handlers run under a lock, and lockmw's options for these. A call whose
	// key is new waits for its lock before the transaction of a Recorder
	// begins; one that is refused leaves its key new. Default: none.
	Locks []Option
	// Scope tells callers with the same ID apart: give each service that shares
	// a store one.
	Scope string
	// KeyOptional lets calls without an idempotency-key pass through. Default:
	// codes.InvalidArgument.
	KeyOptional bool

	// WaitForAnswer is for how long a call waits while another with the same
	// key is being carried out, and at most until a margin before its deadline;
	// 100 wait for one. Default: no waiting, codes.Aborted with LOCK_BUSY.
	WaitForAnswer time.Duration
	// FinishWithin is how long a handler may go on when its client has gone, or
	// the call's deadline has passed; then its context ends. Default 1 min.
	FinishWithin time.Duration
	// EndWithClient ends the handler's context then: for one that undoes what
	// it has begun.
	EndWithClient bool
	// MaxHold bounds how long a call keeps the lock of its key, and that of
	// Locks. Default: the keeper's.
	MaxHold time.Duration

	// MaxRunningPerCaller bounds how many calls of one caller are being carried
	// out at once in this process, those whose clients have gone included: one
	// more with a new key is codes.ResourceExhausted. Default 64.
	MaxRunningPerCaller int64
	// MaxStored bounds the bytes of one caller's stored replies, and what is
	// added in each KeepAnswer. Then its calls with new keys are
	// codes.ResourceExhausted. Default 64 MiB.
	MaxStored int64
	// MaxAnswer bounds a stored reply, in bytes. A larger one reaches the first
	// client; a call that is sent again is codes.AlreadyExists. In a
	// transaction it is rolled back. Default 64 KiB.
	MaxAnswer int

	// KeepAnswer is how long a reply is stored. Default 24 h.
	KeepAnswer time.Duration
	// Recorder keeps the replies, in place of the keeper's store. With a
	// [once.Transactional] one the handler writes in one transaction with its
	// reply. One in conflict with another is codes.Aborted with LOCK_BUSY; one
	// whose lock was lost gets the reply of the call that took over, or
	// LOCK_LOST; if it is not known whether it was committed, it is
	// codes.Unavailable with IDEMPOTENCY_UNKNOWN.
	Recorder once.Recorder
	// SealKeys encrypt stored replies. One that none opens is codes.Internal.
	// Default: in clear.
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

// lockRules returns the rules of Locks, by method.
func (in *idempotent) lockRules() (map[string]lockedMethod, error) {
	rules := newInterceptor("IdempotentConfig.Locks", in.keeper, in.Locks, false)
	if rules.callers != nil || rules.accept || rules.strip || rules.silence != defaultSilence {
		return nil, errors.New("lockbeat: grpcmw.IdempotentConfig.Locks takes rules and options " +
			"of locks: give MaxWaitersPerCaller, Silence, AcceptFence and StripFence to an " +
			"interceptor further out")
	}
	for name := range rules.methods {
		if in.replies[name] == nil {
			return nil, fmt.Errorf("lockbeat: grpcmw.IdempotentConfig.Locks has a rule for %s, "+
				"which is not among its Methods: give it to a UnaryServerInterceptor", name)
		}
	}
	return rules.methods, nil
}

// under is the lock that the handler of a call runs under, nil without one.
func (in *idempotent) under(ctx context.Context, method string, req any) once.Option {
	m, locked := in.locks[method]
	if !locked {
		return nil
	}
	return in.repeats.Under(m.key(ctx, req), m.opt)
}
