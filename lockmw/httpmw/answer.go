package httpmw

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// Responder answers a request that did not run, or whose lock was lost before it had answered.
// err is an [*Error]; [Respond] answers as if there were no responder. A responder must not show
// err's text to the client, since it may carry the lock's name. It may be called concurrently.
type Responder func(w http.ResponseWriter, r *http.Request, err error)

// Error is what a [Responder] gets: the answer by default, and why.
// errors.Is and errors.As find what Err is made of, such as renewer.ErrHeld.
type Error struct {
	// Status is the status code.
	Status int
	// RetryAfter is when it is worth asking again; 0 if it is not.
	// The header counts whole seconds, rounded up.
	RetryAfter time.Duration
	// Type, Title and Detail are those of the problem document, by RFC 9457, without the lock's
	// name. Where all three are empty Respond takes those of Err.
	Type, Title, Detail string
	// Err is why.
	Err error
}

// Error says what is answered, and why. Do not show it to clients: it may carry the lock's name.
func (e *Error) Error() string {
	return fmt.Sprintf("lockbeat: request answered with %d: %v", e.Status, e.Err)
}

// Unwrap gives errors.Is and errors.As the reason.
func (e *Error) Unwrap() error { return e.Err }

// Respond answers as this package does: the status, Retry-After and Cache-Control headers and,
// unless the status is 204 or the request a HEAD, a body of type application/problem+json that
// does not carry the lock's name. err is an [*Error], or an error of package lockmw, for a
// handler that takes locks itself; renewer.ErrHeld is a 409 then.
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
		_, _ = w.Write(body) // a client that has gone needs none
	}
}

func (e *Error) setHeaders(h http.Header) {
	for _, ofBody := range []string{
		"Content-Length", "Content-Encoding", "Content-Disposition",
		"Etag", "Last-Modified",
	} {
		h.Del(ofBody) // of a body that will not come
	}
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
}

// ErrorOf returns what [Respond] answers to err: the [*Error] that is in it, or else one for an
// error of package lockmw or of this package. An error that it does not know is a 500 that says
// nothing of it.
func ErrorOf(err error) *Error { return new(answers).explain(err) }

// answers are how a guard answers in place of the handler.
type answers struct {
	onBusy, onError Responder
	onLost          Responder     // nil: Respond, by a writer that is not wrapped
	busyStatus      int           // when another request has the lock; 0: 409
	retryIn         time.Duration // 0: the defaults
}

// explain makes the answer for err.
func (a *answers) explain(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	why := kindOf(err)
	e := &Error{
		Status: why.status, Type: why.typ, Title: why.title, Detail: why.detail,
		Err: err,
	}
	if why == kindBusy {
		e.Status = a.busy()
	}
	if why.again {
		e.RetryAfter = lockmw.RetryIn(err, a.retryIn)
	}
	return e
}

// refuse answers a request that was refused with err, or lost its lock before it answered.
func (a *answers) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := a.explain(err)
	respond := a.onError
	switch kindOf(e.Err) {
	case kindGone:
		// Nobody is there to be answered, as a rule. But an empty 200,
		// which returning would make, must not reach whoever is: a server
		// whose BaseContext ends cancels the requests of clients that wait.
		panic(http.ErrAbortHandler)
	case kindBusy, kindFull, kindTooMany, kindSkipped:
		respond = a.onBusy
	case kindLost:
		respond = a.lostResponder()
	}
	httpguard.MarkRefused(w.Header(), r)
	respond(w, r, e)
}

// problem is a body by RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (e *Error) problem() problem {
	p := problem{e.Type, e.Title, e.Status, e.Detail}
	if e.Type == "" && e.Title == "" && e.Detail == "" {
		k := kindOf(e.Err)
		p = problem{k.typ, k.title, e.Status, k.detail}
	}
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" && p.Type == "about:blank" {
		p.Title = http.StatusText(e.Status)
	}
	return p
}

func (a *answers) lostResponder() Responder {
	if a.onLost == nil {
		return Respond
	}
	return a.onLost
}

// busy is the status when somebody else has the lock.
func (a *answers) busy() int {
	if a.busyStatus == 0 {
		return http.StatusConflict
	}
	return a.busyStatus
}
