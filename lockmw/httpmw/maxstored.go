package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// DefaultMaxStored is how many bytes of stored answers a caller may add in each [KeepAnswer]: 64 MiB.
const DefaultMaxStored = 64 << 20

// storedBytes is about what Redis takes for a stored answer beside the answer: its keys, the
// request's fingerprint and who answered it.
const storedBytes = 600

// ErrQuota means that a caller has used up [MaxStored], and that its request is a new one. It has
// not been carried out: the answer is a 429.
var ErrQuota = errors.New("lockbeat: the caller has used up what may be stored of its answers")

// MaxStored bounds what one caller may fill the store with: n bytes of stored answers at once, and
// as many again in each [KeepAnswer], evenly. An answer counts with its stored form and 600 bytes
// for its keys, so that by default it is some 100,000 short ones at once, and then one a second. Then a
// request with a new key is answered with 429 and Retry-After, before its handler runs, and leaves
// nothing in the store; answers that are stored are still replayed. Requests that are carried out
// at the same time are counted when they are done.
//
// Each process counts by itself, for each call of [Idempotent]. So the store must have room for
// twice n, and a quarter more for how Redis rounds up, for each caller that means harm, times the processes. Of
// more callers than 65,536 in a process those who have used little are forgotten. Give more, up to
// math.MaxInt64 for no bound, where one caller is many clients, such as a tenant. It panics if n is
// below 1. Default [DefaultMaxStored], 64 MiB.
func MaxStored(n int64) IdempotentOption {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxStored(%d) can't be meant: give a number of bytes, such as httpmw.DefaultMaxStored", n))
	}
	return idempotentOption(func(s *settings) { s.maxStored = n })
}

// checkQuota returns the refusal of a caller that has used up its quota.
func checkQuota(b *quota.Budget, caller string) error {
	wait := b.Wait(caller)
	if wait == 0 {
		return nil
	}
	return &Error{Status: http.StatusTooManyRequests, RetryAfter: max(wait, time.Second), Err: ErrQuota}
}
