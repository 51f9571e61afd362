package repeat

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// storedBytes is about what Redis takes for a stored answer beside the answer itself: its keys, the
// request's fingerprint and the node that answered.
const storedBytes = 600

// ErrQuota means that a request has a new key and that its caller has used up MaxStored.
var ErrQuota = errors.New("lockbeat: the caller has used up what may be stored of its answers")

// QuotaError is [ErrQuota] for a caller that will have room after RetryIn.
type QuotaError struct{ RetryIn time.Duration }

// Error says when there will be room.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrQuota, e.RetryIn)
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// stored counts what each caller's answers take in the store.
type stored struct {
	budget *quota.Budget
	most   int // bytes that one answer may take
}

func newStored(set Settings) *stored {
	return &stored{quota.NewBudget(set.MaxStored, set.KeepAnswer), storedBytes + set.MaxAnswer}
}

// reserve counts the most that one answer of a caller may take. The function used corrects that to
// what the answer has taken. The error is for a caller that has used up its quota.
func (q *stored) reserve(caller string) (used func(bytes int), err error) {
	if wait := q.budget.Take(caller, q.most); wait > 0 {
		return func(int) {}, &QuotaError{max(wait, time.Second)}
	}
	return func(bytes int) { q.budget.Use(caller, bytes-q.most) }, nil
}
