package httpmw

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/full"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
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

// ErrKey means that a request does not say what to lock. The answer is a 400.
var ErrKey = httpguard.ErrKey

// ErrBody means that a request's body can't be read or decoded. The answer is a
// 400, a 413 if it is too large, or a 408 if http.Server.ReadTimeout has ended
// it.
var ErrBody = httpguard.ErrBody

// errTooMany means that too many requests of one client wait already
// ([MaxWaitersPerClient]). The answer is a 429.
var errTooMany = errors.New("lockbeat: too many requests of one client wait")

// kind is a reason for an answer in place of the handler's, with that answer.
type kind struct {
	status int
	again  bool // it is worth asking again
	typ    string
	title  string
	detail string
}

var (
	kindBusy = &kind{
		http.StatusConflict, true, httpguard.TypeBusy, "Busy",
		"Another request holds the lock on this resource." + httpguard.NothingDone,
	}
	kindTooMany = &kind{
		http.StatusTooManyRequests, true, httpguard.TypeTooMany, "Too many requests",
		"Too many requests of this client wait for locks." + httpguard.NothingDone,
	}
	kindReplaced = replaced("." + httpguard.NothingDone)
	kindCutShort = replaced(" while it was being carried out. Some of it may have been done.")
	kindBadKey   = badRequest("The request does not say what to lock, or not in a usable form.")
	kindNoName   = badRequest("The request does not say what to lock: the name for it is empty.")
	kindLongName = badRequest("What the request locks has too long a name.")
	kindNoCaller = badRequest("The request does not say who sends it.")
	kindBadBody  = badRequest("The body of the request can't be read or decoded.")
	kindHuge     = &kind{
		http.StatusRequestEntityTooLarge, false, httpguard.TypeBadRequest, "Bad request",
		"The body of the request is too large." + httpguard.NothingDone,
	}
	kindSlow = &kind{
		http.StatusRequestTimeout, false, httpguard.TypeTimeout, "Request timeout",
		"The body of the request did not come in time." + httpguard.NothingDone,
	}
	kindSetUp = &kind{
		status: http.StatusInternalServerError,
		detail: "The server's lock on this route is set up wrongly. The server's log " +
			"(renewer.Config.Log) is told what is wrong.",
	}
	kindUnknown = &kind{status: http.StatusInternalServerError}
)

// kinds are those of the errors of package lockmw.
var kinds = map[adapter.Refusal]*kind{
	adapter.RefusalBusy:     kindBusy,
	adapter.RefusalReplaced: kindReplaced,
	adapter.RefusalQueueFull: unavailable(httpguard.TypeBusy, "Busy",
		"Too many requests wait for the lock on this resource."),
	adapter.RefusalSkipped: {status: http.StatusNoContent},
	adapter.RefusalUnavailable: unavailable(httpguard.TypeUnavailable, "Lock unavailable",
		"The lock on this resource could not be asked for."),
	adapter.RefusalShutdown: unavailable(httpguard.TypeUnavailable, "Lock unavailable",
		"This server is shutting down."),
	adapter.RefusalName: kindBadKey,
	adapter.RefusalLost: {
		http.StatusServiceUnavailable, true, httpguard.TypeLost, "Lock lost",
		"The lock on this resource was lost while the request was being carried out. Some of it " +
			"may have been done.",
	},
	adapter.RefusalCancelled: unavailable(httpguard.TypeTimeout, "Cancelled",
		"This request was cancelled."),
	adapter.RefusalDeadline: unavailable(httpguard.TypeTimeout, "Out of time",
		"The time for this request ran out before it had the lock."),
}

func unavailable(typ, title, detail string) *kind {
	return &kind{http.StatusServiceUnavailable, true, typ, title, detail + httpguard.NothingDone}
}

// replaced is for a request whose place a newer one has taken. It is not worth
// asking again.
func replaced(when string) *kind {
	return &kind{
		http.StatusConflict, false, httpguard.TypeReplaced, "Replaced",
		"A newer request has taken the place of this one" + when,
	}
}

// atLimit is for a limit that is full, or closed.
func atLimit(limit int, more string) *kind {
	detail := fmt.Sprintf("This resource is at its limit of %d at once%s.", limit, more)
	if limit == 0 {
		detail = "This resource is closed: it takes no requests for now."
	}
	return &kind{
		http.StatusTooManyRequests, true, httpguard.TypeLimit, "At its limit",
		detail + httpguard.NothingDone,
	}
}

func badRequest(detail string) *kind {
	return &kind{
		http.StatusBadRequest, false, httpguard.TypeBadRequest, "Bad request",
		detail + httpguard.NothingDone,
	}
}

// kindOf returns the kind of an error. The request's own faults come first,
// since a key function or a codec may return any error.
func kindOf(err error) *kind {
	switch {
	case errors.Is(err, ErrKey), errors.Is(err, ErrBody):
		return kindOfRequest(err)
	case errors.Is(err, httpguard.ErrNoName):
		return kindNoName
	case errors.Is(err, httpguard.ErrLongName):
		return kindLongName
	case errors.Is(err, errTooMany):
		return kindTooMany
	}
	refusal := adapter.RefusalOf(err)
	if refusal == adapter.RefusalReplaced && errors.Is(err, renewer.ErrLost) {
		return kindCutShort
	}
	if limit, ok := full.Of(err); ok {
		switch refusal {
		case adapter.RefusalBusy:
			return atLimit(limit, "")
		case adapter.RefusalQueueFull:
			return atLimit(limit, ", and too many requests wait for it")
		}
	}
	if k := kinds[refusal]; k != nil {
		return k
	}
	if errors.Is(err, renewer.ErrConfig) {
		return kindSetUp
	}
	return kindUnknown
}

// kindOfRequest returns the kind of a request's own fault.
func kindOfRequest(err error) *kind {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return kindHuge
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return kindSlow
	case errors.Is(err, httpguard.ErrNoCaller):
		return kindNoCaller
	case errors.Is(err, ErrKey):
		return kindBadKey
	default:
		return kindBadBody
	}
}
