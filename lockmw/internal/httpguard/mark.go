package httpguard

import (
	"context"
	"crypto/rand"
	"net/http"
)

// RefusedHeader marks an answer that is a refusal of ours, for an Idempotent further out, which
// takes it off. It is a header, so that it goes where the answer goes: through writers of other
// middleware, and not out of a handler that has dealt with the refusal.
const RefusedHeader = "Lockbeat-Refused"

type recordedKey struct{}

// Recorded is for requests whose answer is recorded.
func Recorded(ctx context.Context) context.Context {
	return context.WithValue(ctx, recordedKey{}, true)
}

// IsRecorded reports whether the answer to a request is recorded.
func IsRecorded(r *http.Request) bool { return r.Context().Value(recordedKey{}) != nil }

// refusedMark is that header's value, which is different in each process, so that no handler's
// upstream makes a refusal of its answer.
var refusedMark = rand.Text()

// MarkRefused says that what is answered now is a refusal, if anybody wants to know.
func MarkRefused(h http.Header, r *http.Request) {
	if IsRecorded(r) {
		h.Set(RefusedHeader, refusedMark)
	}
}

// TakeMark reports whether an answer with these headers is a refusal of ours, and takes the mark
// off.
func TakeMark(h http.Header) (refused bool) {
	refused = h.Get(RefusedHeader) == refusedMark
	h.Del(RefusedHeader)
	return refused
}
