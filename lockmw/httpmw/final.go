package httpmw

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
)

// errNotFinal means that a handler has answered what is not to be stored.
var errNotFinal = errors.New("lockbeat: the answer is not final")

// finalStatus reports whether answers with a status are stored by default. An error says that
// nothing has been done, so the handler may run again; and what any client can have for the asking
// would take space in the store for a day.
func finalStatus(status int) bool { return status < http.StatusBadRequest }

// final reports whether the handler's answer is to be stored. An error with Retry-After is not,
// whatever its status: it asks the client to come again. (A 202 with Retry-After says when to ask
// for the result of what has been begun.)
func (r *recorder) final(keep func(status int) bool) bool {
	again := r.status >= http.StatusBadRequest && r.sent.Get("Retry-After") != ""
	return !r.refused && !again && keep(r.status)
}

// refusedHeader marks an answer that is a refusal of ours, for an Idempotent further out, which
// takes it off. It is a header, so that it goes where the answer goes: through writers of other
// middleware, and not out of a handler that has dealt with the refusal.
const refusedHeader = "Lockbeat-Refused"

type recordedKey struct{}

// recorded is for requests whose answer is recorded.
func recorded(ctx context.Context) context.Context {
	return context.WithValue(ctx, recordedKey{}, true)
}

func isRecorded(r *http.Request) bool { return r.Context().Value(recordedKey{}) != nil }

// refusedMark is that header's value, which is different in each process, so that no handler's
// upstream makes a refusal of its answer.
var refusedMark = rand.Text()

// markRefused says that what is answered now is a refusal, if anybody wants to know.
func markRefused(h http.Header, r *http.Request) {
	if isRecorded(r) {
		h.Set(refusedHeader, refusedMark)
	}
}
