package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// DefaultMaxStored is how many bytes of stored answers a caller may add in each [KeepAnswer]: 64
// MiB.
const DefaultMaxStored = 64 << 20

// storedBytes is about what Redis takes for a stored answer beside the answer: its keys, the
// request's fingerprint and who answered it.
const storedBytes = 600

// ErrQuota means that a caller has used up [MaxStored], and that its request is a new one. It has
// not been carried out: the answer is a 429.
var ErrQuota = errors.New("lockbeat: the caller has used up what may be stored of its answers")

// MaxStored bounds what one caller may fill the store with: n bytes of stored answers at once,
// and as many again in each [KeepAnswer], evenly. A caller that has used it up is answered with
// 429 and Retry-After when its request has a new key, before the handler runs, and no answer is
// stored for it. Answers that are stored are still replayed.
//
// An answer counts with its stored form and 600 bytes for its keys: by default that is 90,000
// short answers at once and one a second from then on, or 1,000 of the largest. A request that is
// being carried out counts with [MaxAnswer] until it is done. Each process counts by itself, for
// each call of [Idempotent], and so one caller can take at most 2.5 times n of Redis in each,
// with what Redis rounds up. A process keeps 65,536 callers in mind; of more it forgets one that
// has used little.
//
// Give more where a caller is many clients, such as a tenant: math.MaxInt64 is no bound. It panics
// if n is below 1. Default [DefaultMaxStored], 64 MiB.
func MaxStored(n int64) IdempotentOption {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxStored(%d) can't be meant: give a number of "+
			"bytes, such as httpmw.DefaultMaxStored", n))
	}
	return idempotentOption(func(s *settings) { s.maxStored = n })
}

// reserve counts the most that an answer may take as used by a caller; used corrects that when it
// is known. The error is the refusal of a caller that has used up its quota.
func (i *idempotent) reserve(caller string) (used func(bytes int), err error) {
	most := storedBytes + i.maxAnswer
	if wait := i.stored.Take(caller, most); wait > 0 {
		return func(int) {}, &Error{
			Status:     http.StatusTooManyRequests,
			RetryAfter: max(wait, time.Second), Err: ErrQuota,
		}
	}
	return func(bytes int) { i.stored.Use(caller, bytes-most) }, nil
}
