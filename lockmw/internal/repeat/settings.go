package repeat

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// Defaults of the settings, which the adapters' docs tell.
const (
	DefaultMaxAnswer  = 64 << 10
	DefaultMaxRunning = 64
)

// Given is what users set, by fields of the same names of an adapter's
// configuration. The zero value of each is its default.
type Given struct {
	Scope               string
	WaitForAnswer       time.Duration
	FinishWithin        time.Duration
	EndWithClient       bool          // FinishWithin is none
	MaxHold             time.Duration // 0: the keeper's; lockmw.NoBound: no bound
	MaxRunningPerCaller int64
	MaxStored           int64
	MaxAnswer           int
	KeepAnswer          time.Duration
	Recorder            once.Recorder // nil: the keeper
	SealKeys            [][]byte      // nil: answers are stored in clear
}

// Settings are what was given, with the defaults.
type Settings struct {
	Scope         string
	MaxWaiters    int
	WaitForAnswer time.Duration // 0: none
	FinishWithin  time.Duration
	MaxRunning    int64 // of each caller
	KeepAnswer    time.Duration
	MaxAnswer     int
	MaxStored     int64
	Seal          Sealer
	Recorder      once.Recorder // nil: the keeper
	MaxHold       time.Duration
}

// Defaults returns the settings of an adapter of which so many requests may
// wait for one answer.
func Defaults(maxWaiters int) Settings {
	return Settings{
		MaxWaiters: maxWaiters, FinishWithin: time.Minute, KeepAnswer: 24 * time.Hour,
		MaxAnswer: DefaultMaxAnswer, MaxStored: 64 << 20, MaxRunning: DefaultMaxRunning,
	}
}

// Settings returns what was given by a configuration, by its name in errors. It
// refuses what can't be meant.
func (g Given) Settings(config string, maxWaiters int) (Settings, error) {
	set := Defaults(maxWaiters)
	if err := NotNegative(config, map[string]int64{
		"WaitForAnswer": int64(g.WaitForAnswer), "KeepAnswer": int64(g.KeepAnswer),
		"FinishWithin": int64(g.FinishWithin), "MaxHold": int64(g.MaxHold),
		"MaxRunningPerCaller": g.MaxRunningPerCaller, "MaxStored": g.MaxStored,
		"MaxAnswer": int64(g.MaxAnswer),
	}); err != nil {
		return set, err
	}
	set.Scope, set.WaitForAnswer, set.Recorder = g.Scope, g.WaitForAnswer, g.Recorder
	set.FinishWithin = cmp.Or(g.FinishWithin, set.FinishWithin)
	if g.EndWithClient {
		set.FinishWithin = 0
	}
	set.MaxRunning = cmp.Or(g.MaxRunningPerCaller, set.MaxRunning)
	set.MaxStored = cmp.Or(g.MaxStored, set.MaxStored)
	set.MaxAnswer = cmp.Or(g.MaxAnswer, set.MaxAnswer)
	set.KeepAnswer = cmp.Or(g.KeepAnswer, set.KeepAnswer)
	set.MaxHold = g.MaxHold
	var err error
	if g.SealKeys != nil {
		set.Seal, err = NewSealer(config+".SealKeys", g.SealKeys)
	}
	return set, err
}

// NotNegative refuses fields of a configuration that are below 0.
func NotNegative(config string, fields map[string]int64) error {
	for name, value := range fields {
		if value < 0 {
			return fmt.Errorf("lockbeat: %s.%s is %d, which can't be meant: give more than 0, or "+
				"leave it out for its default", config, name, value)
		}
	}
	return nil
}

// Transactional reports whether a handler writes in one transaction with the
// record of its answer. Then no final answer may go out before it is on record:
// a transaction that is rolled back undoes what the answer says.
func (s *Settings) Transactional() bool {
	_, yes := s.Recorder.(once.Transactional)
	return yes
}

// storedBytes is about what Redis takes for a stored answer beside the answer
// itself: its keys, the request's fingerprint and the node that answered.
const storedBytes = 600

var (
	// ErrQuota means that a request has a new key and that its caller has used
	// up a quota.
	ErrQuota = errors.New("lockbeat: the caller has used up a quota")
	// ErrTooMany is the [ErrQuota] of a caller of whose requests as many are
	// being carried out in this process as MaxRunning allows.
	ErrTooMany = fmt.Errorf("%w: MaxRunningPerCaller", ErrQuota)
)

// QuotaError is the [ErrQuota] of a caller that has used up MaxStored, and will
// have room after RetryIn.
type QuotaError struct{ RetryIn time.Duration }

// Error says when there will be room.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v: MaxStored; try again in %v", ErrQuota, e.RetryIn)
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// quotas bound what each caller has of a guard: requests that are being carried
// out, which go on when their clients have gone, and stored answers.
type quotas struct {
	running *quota.Each
	stored  *quota.Budget
	most    int // bytes that one answer may take
}

func newQuotas(set Settings) *quotas {
	return &quotas{
		running: quota.New(int(min(set.MaxRunning, math.MaxInt32))),
		stored:  quota.NewBudget(set.MaxStored, set.KeepAnswer),
		most:    storedBytes + set.MaxAnswer,
	}
}

// enter counts a caller's request that is about to be carried out, and the most
// that its answer may take in the store. The function leave must be called when
// the request is over, with what its answer has taken. The error is for a
// caller that has used up a quota; nothing is counted then.
func (q *quotas) enter(caller string) (leave func(stored int), err error) {
	if !q.running.Take(caller) {
		return nil, ErrTooMany
	}
	if wait := q.stored.Take(caller, q.most); wait > 0 {
		q.running.Give(caller)
		return nil, &QuotaError{max(wait, time.Second)}
	}
	return func(stored int) {
		q.stored.Use(caller, stored-q.most)
		q.running.Give(caller)
	}, nil
}
