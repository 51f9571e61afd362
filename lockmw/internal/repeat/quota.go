package repeat

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

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
