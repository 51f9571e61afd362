package httpmw

import (
	"errors"
	"net/http"
	"os"

	"github.com/lockbeat/lockbeat/lockmw"
)

// The types of problem documents (RFC 9457) tell programs more than the status does. Package
// idempotent sends them too. A failure of the server itself, with status 500, is "about:blank".
const (
	// TypeBusy means that another request has the lock, or that too many wait for it; or that the
	// request's transaction was in conflict with another one, and was undone. The request has not
	// been carried out.
	TypeBusy = types + "TypeBusy"
	// TypeUnavailable means that the lock can't be had for now: its store does not answer, or this
	// server is shutting down. The request has not been carried out.
	TypeUnavailable = types + "TypeUnavailable"
	// TypeTimeout means that the request's own time ran out, or that its body came too slowly. The
	// detail says whether it has been carried out. As a rule it has not.
	TypeTimeout = types + "TypeTimeout"
	// TypeLost means that the lock was lost while the request was being carried out. Some of it may
	// have been done.
	TypeLost = types + "TypeLost"
	// TypeReused means that the Idempotency-Key is another request's. This request has not been
	// carried out.
	TypeReused = types + "TypeReused"
	// TypeNotKept means that the request has been carried out before, and that its answer was not
	// kept.
	TypeNotKept = types + "TypeNotKept"
	// TypeQuota means that as many answers to the caller's requests are stored as may be. This
	// request has not been carried out. A request with a known key would get its answer.
	TypeQuota = types + "TypeQuota"
	// TypeTooMany means that as many requests of the client are under way as may be: that wait for
	// locks ([MaxWaitersPerClient]), or that are being carried out (package idempotent). This
	// request has not been carried out.
	TypeTooMany = types + "TypeTooMany"
	// TypeUnknown means that it is not known whether what the request did is on record. Sent again
	// with the same Idempotency-Key it gets its answer, or is carried out.
	TypeUnknown = types + "TypeUnknown"
	// TypeBadRequest means that the request does not say what to
	// lock, or can't be decoded. It has not been carried out.
	TypeBadRequest = types + "TypeBadRequest"
)

// types is the address where the types are explained, as the RFC asks for.
const types = "https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#"

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
		http.StatusConflict, true, TypeBusy, "Busy",
		"Another request holds the lock on this resource. " + nothingDone,
	}
	kindFull = &kind{
		http.StatusServiceUnavailable, true, TypeBusy, "Busy",
		"Too many requests wait for the lock on this resource. " + nothingDone,
	}
	kindTooMany = &kind{
		http.StatusTooManyRequests, true, TypeTooMany, "Too many requests",
		"Too many requests of this client wait for locks. " + nothingDone,
	}
	kindSkipped = &kind{status: http.StatusNoContent}
	kindDown    = &kind{
		http.StatusServiceUnavailable, true, TypeUnavailable, "Lock unavailable",
		"The lock on this resource could not be asked for. " + nothingDone,
	}
	kindStopping = &kind{
		http.StatusServiceUnavailable, true, TypeUnavailable, "Lock unavailable",
		"This server is shutting down. " + nothingDone,
	}
	kindLate = &kind{
		http.StatusServiceUnavailable, true, TypeTimeout, "Out of time",
		"The time for this request ran out before it had the lock. " + nothingDone,
	}
	kindGone = &kind{
		http.StatusServiceUnavailable, true, TypeTimeout, "Cancelled",
		"This request was cancelled before it had the lock. " + nothingDone,
	}
	kindLost = &kind{
		http.StatusServiceUnavailable, true, TypeLost, "Lock lost",
		"The lock on this resource was lost while the request was being carried out. Some of it " +
			"may have been done.",
	}
	kindBadName = &kind{
		http.StatusBadRequest, false, TypeBadRequest, "Bad request",
		"What the request names to be locked is empty or too long. " + nothingDone,
	}
	kindBadKey = &kind{
		http.StatusBadRequest, false, TypeBadRequest, "Bad request",
		"The request does not say what to lock. " + nothingDone,
	}
	kindBadBody = &kind{
		http.StatusBadRequest, false, TypeBadRequest, "Bad request",
		"The body of the request can't be decoded. " + nothingDone,
	}
	kindHugeBody = &kind{
		http.StatusRequestEntityTooLarge, false, TypeBadRequest, "Bad request",
		"The body of the request is too large. " + nothingDone,
	}
	kindSlowBody = &kind{
		http.StatusRequestTimeout, false, TypeTimeout, "Request timeout",
		"The body of the request did not come in time. The request has not been carried out, or " +
			"not to its end.",
	}
	kindBadFence = &kind{
		http.StatusBadRequest, false, TypeBadRequest, "Bad request",
		"The header " + FenceHeader + " is no fencing token. " + nothingDone,
	}
	kindWildcard = &kind{
		status: http.StatusInternalServerError,
		detail: "The server's lock on this route is set up wrongly: the route has no wildcard of " +
			"the name given to httpmw.PathValue. " +
			"The server's observer (renewer.Config.Observer) has been told which. " + nothingDone,
	}
	kindMisuse = &kind{status: http.StatusInternalServerError}
)

const nothingDone = "The request has not been carried out."

// kindOf returns the kind of an error. The request's own faults come
// first, since a key function or a codec may return any error.
func kindOf(err error) *kind {
	switch {
	case errors.Is(err, ErrKey), errors.Is(err, ErrBody):
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return kindHugeBody
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return kindSlowBody
		}
		if errors.Is(err, ErrKey) {
			return kindBadKey
		}
		return kindBadBody
	case errors.Is(err, errWildcard):
		return kindWildcard
	case errors.Is(err, ErrFence):
		return kindBadFence
	case errors.Is(err, ErrTooMany):
		return kindTooMany
	}
	switch lockmw.RefusalOf(err) {
	case lockmw.RefusalHeld:
		return kindBusy
	case lockmw.RefusalQueueFull:
		return kindFull
	case lockmw.RefusalSkipped:
		return kindSkipped
	case lockmw.RefusalUnavailable:
		return kindDown
	case lockmw.RefusalShutdown:
		return kindStopping
	case lockmw.RefusalName:
		return kindBadName
	case lockmw.RefusalLost:
		return kindLost
	case lockmw.RefusalCancelled:
		return kindGone
	case lockmw.RefusalDeadline:
		return kindLate
	default:
		return kindMisuse
	}
}
