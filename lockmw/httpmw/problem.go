package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/full"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

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
