package grpcmw

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// Defaults of the options of [Idempotent].
const (
	// DefaultKeepAnswer is how long a reply is replayed: a day.
	DefaultKeepAnswer = repeat.DefaultKeepAnswer
	// DefaultMaxAnswer is how many bytes a reply may have to be stored: 64 KiB.
	DefaultMaxAnswer = repeat.DefaultMaxAnswer
	// DefaultMaxStored is how many bytes of stored replies a caller may add in each [KeepAnswer]:
	// 64 MiB.
	DefaultMaxStored = repeat.DefaultMaxStored
	// DefaultFinishWithin is how long a handler may go on when its client has gone: a minute.
	DefaultFinishWithin = repeat.DefaultFinishWithin
	// DefaultMaxRunningPerCaller is how many calls of one caller are carried out at once: 64.
	DefaultMaxRunningPerCaller = repeat.DefaultMaxRunning
)

// IdempotentOption says what one [Idempotent] does. Of two that contradict each other the later one
// counts. An option panics if it is given what can't be meant, such as a negative duration.
type IdempotentOption interface{ idempotent(*idempotentSettings) }

type idempotentOption func(*idempotentSettings)

func (o idempotentOption) idempotent(s *idempotentSettings) { o(s) }

type idempotentSettings struct {
	repeat.Settings

	keyOptional bool
	keepCode    func(codes.Code) bool
}

func newIdempotentSettings() idempotentSettings {
	return idempotentSettings{
		Settings: repeat.Defaults(DefaultMaxWaiters),
		keepCode: func(code codes.Code) bool { return code == codes.OK },
	}
}

// Scope tells callers of [Idempotent] with the same ID apart: the same caller and key in another
// scope are another call. Give each service that shares a Redis a scope, such as its name, unless
// it has a store prefix of its own (redisstore.Prefix). With another scope all keys are new.
// Default "".
func Scope(scope string) IdempotentOption {
	return idempotentOption(func(s *idempotentSettings) { s.Scope = scope })
}

// KeyOptional lets calls without an [IdempotencyKey] pass through. Default: they are
// codes.InvalidArgument.
func KeyOptional() IdempotentOption {
	return idempotentOption(func(s *idempotentSettings) { s.keyOptional = true })
}

// WaitForAnswer has a call wait for at most d while another with the same key is being carried out,
// and at most until a margin before its own deadline (lockmw.AnswerBy). Then it gets the reply of
// that one, or is carried out itself if that one came to nothing. In one process at most
// [DefaultMaxWaiters] wait for one key. It panics if d is not positive. Default: no waiting,
// codes.Aborted with LOCK_BUSY.
func WaitForAnswer(d time.Duration) IdempotentOption {
	positive("WaitForAnswer", d, d > 0)
	return idempotentOption(func(s *idempotentSettings) { s.WaitForAnswer = d })
}

// FinishWithin is how long a handler may go on when its call has ended: by its deadline, or since
// the client has gone. After that its context ends. Give more for a handler that needs longer, and
// 0 for a handler that undoes what it has begun when its context ends. It panics if d is negative.
// Default [DefaultFinishWithin], 1 min.
func FinishWithin(d time.Duration) IdempotentOption {
	positive("FinishWithin", d, d >= 0)
	return idempotentOption(func(s *idempotentSettings) { s.FinishWithin = d })
}

// MaxRunningPerCaller bounds how many calls of one caller are being carried out at once in this
// process, for each [Idempotent]: n. A call with a new key beyond that is codes.ResourceExhausted
// with IDEMPOTENCY_TOO_MANY at once; its handler does not run, and nothing is stored. Replies that
// are stored are still replayed, and calls that wait for another's reply do not count.
//
// It is what bounds calls whose clients have gone: they go on ([FinishWithin]), each with its
// message in memory, and without a connection. Give more where a caller is many clients, such as a
// tenant. It panics if n is below 1. Default [DefaultMaxRunningPerCaller], 64: more than one user's
// clients send at once.
func MaxRunningPerCaller(n int) IdempotentOption {
	positive("MaxRunningPerCaller", n, n > 0)
	return idempotentOption(func(s *idempotentSettings) { s.MaxRunning = n })
}

// KeepAnswer is how long a reply is stored, to be replayed. After d the key is as new. Give longer
// than clients go on trying. It must be longer than renewer.Config.TTL: otherwise [Idempotent]
// panics. Default [DefaultKeepAnswer], 24 h.
func KeepAnswer(d time.Duration) IdempotentOption {
	return idempotentOption(func(s *idempotentSettings) { s.KeepAnswer = d })
}

// KeepCode says which of the handler's replies are final, by their code: keep reports whether such
// a reply, message or status, is stored and replayed. Others leave no record in the store, and the
// next call with the key runs the handler again. Refusals by locks further in, statuses with
// RetryInfo, and errors that a handler returns after its context has ended are never stored. keep
// may be called concurrently. It panics if keep is nil. Default: codes.OK alone, since an error
// says that nothing has been done.
func KeepCode(keep func(codes.Code) bool) IdempotentOption {
	if keep == nil {
		panic("lockbeat: grpcmw.KeepCode needs a function that reports whether replies with a " +
			"code are stored")
	}
	return idempotentOption(func(s *idempotentSettings) { s.keepCode = keep })
}

// MaxAnswer bounds a stored reply to n bytes of JSON, in which a message takes a third
// more. A larger reply reaches the first client and can't be replayed: a call that is sent
// again is codes.AlreadyExists, and the handler does not run again. With [RecordIn] it may
// be rolled back: see there. It panics if n is below 1. Default [DefaultMaxAnswer], 64 KiB.
func MaxAnswer(n int) IdempotentOption {
	positive("MaxAnswer", n, n > 0)
	return idempotentOption(func(s *idempotentSettings) { s.MaxAnswer = n })
}

// MaxStored bounds what one caller may fill the store with: n bytes of stored replies at once, and
// as many again in each [KeepAnswer], evenly. When a caller has used that up, its calls with new
// keys are codes.ResourceExhausted, and their handler does not run. Stored replies are still
// replayed. A reply counts with its stored form and 600 bytes for its keys, in each process by
// itself. math.MaxInt64 is no bound. It panics if n is below 1. Default [DefaultMaxStored], 64 MiB.
func MaxStored(n int64) IdempotentOption {
	positive("MaxStored", n, n > 0)
	return idempotentOption(func(s *idempotentSettings) { s.MaxStored = n })
}

// RecordIn has recorder keep the replies, in the place of the keeper's store, which need not keep
// records then. All servers must give the same.
//
// With a [once.Transactional] recorder, such as package sqlrecord's, the handler writes by
// the recorder's transaction, sqlrecord.Tx(ctx). That is committed together with the reply. A
// reply that is not final ([KeepCode]) rolls it back, as a panic and the death of the process
// do. So does a final one that is larger than [MaxAnswer]: codes.Internal, of which the keeper's
// observer is told, once. A call that loses
// its lock, and that another one overtakes, gets the reply of that one; codes.Aborted if that
// came to nothing. If it can't be found out whether the transaction was committed, the call
// is codes.Unavailable, and its client learns it by sending it again.
//
// It panics if recorder is nil. Default: the keeper's store.
func RecordIn(recorder once.Recorder) IdempotentOption {
	if recorder == nil {
		panic("lockbeat: grpcmw.RecordIn needs a recorder, such as that of sqlrecord.New")
	}
	return idempotentOption(func(s *idempotentSettings) { s.Recorder = recorder })
}

// Seal encrypts stored replies by AES-GCM, for a store that other programs can read or write. They
// can't read a reply, change it, or move it to another caller, key or request. The first key seals,
// and any of the keys opens. To change keys, give all processes the new one behind the old, then
// before it, and drop the old one [KeepAnswer] later. A reply that none of the keys opens, or that
// is not sealed, is codes.Internal: the handler does not run, and the keeper's observer is told,
// once.
//
// Keys are 16, 24 or 32 random bytes, for AES-128, -192 or -256; one key is good for 2^32 replies.
// It panics without a key, or with one of another length. Default: replies are stored in clear.
func Seal(keys ...[]byte) IdempotentOption {
	sealer, err := repeat.NewSealer("grpcmw.Seal", keys)
	if err != nil {
		panic(err.Error())
	}
	return idempotentOption(func(s *idempotentSettings) { s.Seal = sealer })
}

// positive panics unless a value of an option can be meant.
func positive(option string, value any, meant bool) {
	if !meant {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s(%v) can't be meant: give a larger one, or leave it "+
			"out", option, value))
	}
}
