package idempotent

import (
	"errors"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

const nothingDone = "The request has not been carried out."

// explain returns the answer to err: this package's own, or package httpmw's. The request's faults
// come first, since the caller function may return any error.
func explain(err error, retryIn time.Duration) *httpmw.Error {
	if e, ok := errors.AsType[*httpmw.Error](err); ok {
		return e
	}
	if full, ok := errors.AsType[*repeat.QuotaError](err); ok {
		return quotaFull(full)
	}
	e := httpmw.ErrorOf(err)
	switch {
	case errors.Is(err, httpmw.ErrKey), errors.Is(err, httpmw.ErrBody):
	case errors.Is(err, ErrKey):
		return badKey(err)
	case errors.Is(err, ErrTooMany):
		return tooMany(err, retryIn)
	case errors.Is(err, once.ErrInput):
		return reused(err)
	case errors.Is(err, once.ErrResult):
		return notKept(err)
	case errors.Is(err, once.ErrRecord):
		return unreadable(err)
	case errors.Is(err, repeat.ErrLarge):
		e.Detail = "The answer is too large to be kept. " + nothingDone
	case errors.Is(err, once.ErrNotRecorded):
		return unknown(err, retryIn)
	case errors.Is(err, once.ErrConflict):
		return inConflict(err, retryIn)
	case errors.Is(err, repeat.ErrUnanswered) && lockmw.RefusalOf(err) == lockmw.RefusalDeadline:
		e.Detail = "The time for this request ran out while it was being carried out. Some of it " +
			"may have been done."
	}
	if e.RetryAfter > 0 {
		e.RetryAfter = lockmw.RetryIn(err, retryIn)
	}
	return e
}

func quotaFull(err *repeat.QuotaError) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusTooManyRequests, Type: httpmw.TypeQuota, Title: "Quota used up",
		Detail: "Too many answers to requests with an " + KeyHeader +
			" are stored for this caller. " + nothingDone,
		RetryAfter: err.RetryIn, Err: err,
	}
}

func tooMany(err error, retryIn time.Duration) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusTooManyRequests, Type: httpmw.TypeTooMany, Title: "Too many requests",
		Detail: "Too many requests of this caller with an " + KeyHeader +
			" are being carried out. " + nothingDone,
		RetryAfter: lockmw.RetryIn(err, retryIn), Err: err,
	}
}

func badKey(err error) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusBadRequest, Type: httpmw.TypeBadRequest, Title: "Bad request",
		Detail: "The request needs one header " + KeyHeader +
			" of 1 to 255 visible ASCII characters. " + nothingDone,
		Err: err,
	}
}

func reused(err error) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusUnprocessableEntity, Type: httpmw.TypeReused, Title: "Key reused",
		Detail: "The " + KeyHeader +
			" is that of another request: another method, host (with its port), path, query, " +
			"content type or body. " + nothingDone,
		Err: err,
	}
}

func notKept(err error) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusConflict, Type: httpmw.TypeNotKept, Title: "Done before",
		Detail: "A request with this " + KeyHeader +
			" has been carried out, but its answer was too large to be kept.",
		Err: err,
	}
}

func unknown(err error, retryIn time.Duration) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusServiceUnavailable, Type: httpmw.TypeUnknown, Title: "Not known",
		Detail: "It is not known whether what the request did is on record. Send it again with " +
			"the same " + KeyHeader + ": if it is, the answer is sent, and if not, the request " +
			"is carried out.",
		RetryAfter: lockmw.RetryIn(err, retryIn), Err: err,
	}
}

func inConflict(err error, retryIn time.Duration) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusServiceUnavailable, Type: httpmw.TypeBusy, Title: "Conflict",
		Detail: "The request was undone, since it was in conflict with another one. Send it " +
			"again. " + nothingDone,
		RetryAfter: lockmw.RetryIn(err, retryIn), Err: err,
	}
}

func unreadable(err error) *httpmw.Error {
	return &httpmw.Error{
		Status: http.StatusInternalServerError,
		Detail: "What is stored for this " + KeyHeader +
			" can't be read. This request has not been carried out; one before it may have been.",
		Err: err,
	}
}
