package idempotent

import "net/http"

// finalStatus reports whether answers with a status are stored by default. An error says that
// nothing has been done, so the handler may run again. And any client can get errors: stored, each
// would take space for a day.
func finalStatus(status int) bool { return status < http.StatusBadRequest }

// final reports whether the handler's answer is to be stored. An error with Retry-After is not,
// whatever its status: it asks the client to come again. (A 202 with Retry-After says when to ask
// for the result of what has been begun.)
func (r *recorder) final() bool {
	again := r.status >= http.StatusBadRequest && r.sent.Get("Retry-After") != ""
	return !r.refused && !again && r.keep(r.status)
}
