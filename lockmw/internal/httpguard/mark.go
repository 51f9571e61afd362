package httpguard

import (
	"context"
	"crypto/rand"
	"net/http"
)

// RefusedHeader marks an answer as a guard's refusal, for a recorder further
// out, which takes it off. It is a header, so that it goes where the answer
// goes: through writers of other middleware, and not out of a handler that has
// dealt with the refusal.
const RefusedHeader = "Lockbeat-Refused"

type recordedKey struct{}

// Recorded returns the context of a request whose answer is recorded.
func Recorded(ctx context.Context) context.Context {
	return context.WithValue(ctx, recordedKey{}, true)
}

// IsRecorded reports whether the answer to a request is recorded.
func IsRecorded(r *http.Request) bool { return r.Context().Value(recordedKey{}) != nil }

// refusedMark is the value of RefusedHeader. It differs from process to
// process, so that no server behind a handler can mark its answer.
var refusedMark = rand.Text()

// MarkRefused marks an answer to r as a refusal, if the answer is recorded.
func MarkRefused(h http.Header, r *http.Request) {
	if IsRecorded(r) {
		h.Set(RefusedHeader, refusedMark)
	}
}

// TakeMark reports whether an answer with these headers is a guard's
// refusal, and takes the mark off.
func TakeMark(h http.Header) (refused bool) {
	refused = h.Get(RefusedHeader) == refusedMark
	h.Del(RefusedHeader)
	return refused
}
