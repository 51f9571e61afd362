package idempotent

import (
	"errors"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// storedBytes is about what Redis takes for a stored answer beside the answer itself: its keys, the
// request's fingerprint and the node that answered.
const storedBytes = 600

// ErrQuota means that a request has a new key and its caller has used up
// [MaxStored]. The request has not been carried out. The answer is a 429.
var ErrQuota = errors.New("lockbeat: the caller has used up what may be stored of its answers")

// stored counts what each caller's answers take in the store.
type stored struct {
	budget *quota.Budget
	most   int // bytes that one answer may take
}

func newStored(set settings) *stored {
	return &stored{quota.NewBudget(set.maxStored, set.keepAnswer), storedBytes + set.maxAnswer}
}

// reserve counts the most that one answer of a caller may take. The function used corrects that to
// what the answer has taken. The error is for a caller that has used up its quota.
func (q *stored) reserve(caller string) (used func(bytes int), err error) {
	if wait := q.budget.Take(caller, q.most); wait > 0 {
		return func(int) {}, quotaFull(wait)
	}
	return func(bytes int) { q.budget.Use(caller, bytes-q.most) }, nil
}

// quotaFull refuses a caller that will have room after wait.
func quotaFull(wait time.Duration) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusTooManyRequests, Type: httpmw.TypeQuota, Title: "Quota used up",
		Detail: "Too many answers to requests with an " + KeyHeader +
			" are stored for this caller. " + nothingDone,
		RetryAfter: max(wait, time.Second), Err: ErrQuota,
	}
}
