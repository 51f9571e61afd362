package httpmw

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// Responder answers a request that did not run, or whose lock was lost before
// the handler had answered. err is an [*Error], whose text must not be shown to
// the client, since it may have the lock's name. It may be called concurrently.
type Responder func(w http.ResponseWriter, r *http.Request, err error)

// Error is the answer to a request that did not run, or whose lock was lost. A
// [Responder] gets it, and a key function may give one to lockmw.Invalid.
// errors.Is and errors.As find what Err is made of, such as renewer.ErrBusy.
type Error struct {
	// Status is the status code.
	Status int
	// RetryAfter is when it is worth asking again, 0 if it is not. The header
	// has whole seconds, rounded up.
	RetryAfter time.Duration
	// Type, Title and Detail are those of the problem document (RFC 9457),
	// without the lock's name. If all three are empty, [Respond] takes those
	// for Err.
	Type, Title, Detail string
	// Err is the reason. It is not sent.
	Err error
}

// Error returns the status and the reason. Do not show it to clients.
func (e *Error) Error() string {
	return fmt.Sprintf("lockbeat: request answered with %d: %v", e.Status, e.Err)
}

// Unwrap gives errors.Is and errors.As the reason.
func (e *Error) Unwrap() error { return e.Err }

// Respond answers as [ErrorOf] says: the status, the headers Retry-After and
// Cache-Control, and a problem document (application/problem+json) without the
// lock's name. Handlers that take locks themselves may call it with an error of
// package lockmw.
func Respond(w http.ResponseWriter, r *http.Request, err error) {
	e := ErrorOf(err)
	h := w.Header()
	e.setHeaders(h)
	httpguard.MarkRefused(h, r)
	if e.Status == http.StatusNoContent {
		w.WriteHeader(e.Status)
		return
	}
	body, _ := json.Marshal(e.problem()) // strings and a number: it does not fail
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have gone
	}
}

func (e *Error) setHeaders(h http.Header) {
	for _, ofBody := range []string{
		"Content-Length", "Content-Encoding", "Content-Disposition", "Etag", "Last-Modified",
	} {
		h.Del(ofBody) // the handler has set it for a body that will not come
	}
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
}

// problem is a document by RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (e *Error) problem() problem {
	p := problem{e.Type, e.Title, e.Status, e.Detail}
	if p.Type == "" && p.Title == "" && p.Detail == "" {
		k := kindOf(e.Err)
		p.Type, p.Title, p.Detail = k.typ, k.title, k.detail
	}
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" && p.Type == "about:blank" {
		p.Title = http.StatusText(e.Status)
	}
	return p
}

// ErrorOf returns what [Respond] answers to err: the [*Error] in it, or one for
// an error of this package or of package lockmw, where renewer.ErrBusy is a
// 409, and a 429 of a limit. Any other error is a 500 whose document says
// nothing of it.
func ErrorOf(err error) *Error {
	return errorOf(err, http.StatusConflict)
}

// errorOf is ErrorOf where renewer.ErrBusy of a lock is busyStatus.
func errorOf(err error, busyStatus int) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	why := kindOf(err)
	e := &Error{
		Status: why.status, Type: why.typ, Title: why.title, Detail: why.detail, Err: err,
	}
	if why == kindBusy {
		e.Status = busyStatus
	}
	if why.again {
		e.RetryAfter = adapter.RetryIn(err, 0)
	}
	return e
}
