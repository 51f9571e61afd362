package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrKey means that a request does not say what to lock: a value is missing, or its [KeyFunc] failed. The answer is a 400.
var ErrKey = errors.New("lockbeat: no key in the request")

// KeyFunc derives a lock's name from a request. The name is taken as it is, so that handlers can share a lock with each other and
// with lockmw.Do: make it with [lockmw.Key]. An empty name, one above renewer.MaxName bytes, and an error are answered with 400
// and no lock is asked for; an error that is an [*Error] says itself what is answered. It may be called concurrently, and must
// leave the body to the handler: for a key from the body there is [Handle].
type KeyFunc func(*http.Request) (string, error)

// PathValue names the lock by the path up to and including the wildcard {name} of the route, so that all routes below share it: of
// "POST /accounts/{id}/transfer" and "/accounts/{id}/close", with id 7, it is "/accounts/7", and of "/orders/{id}" it is "/orders/7".
// Method and host are no part of it. For routes that name the same thing by different paths write a function instead.
//
// It works wherever the route is known: on handlers of an http.ServeMux, and with chi on r.With, r.Group and below r.Route. Values
// that differ in percent-encoding only are the same, since chi hands over some as they were sent. Where r.Pattern is that of another
// route, but r.PathValue has a value, the name is lockmw.Key(name, value), which excludes more rather than less.
//
// A request without a value is answered with 400. One whose route has no such wildcard, or whose
// router tells of no route, as echo, is answered with 500, and renewer.Config.Observer is told why,
// once for each handler. PathValue panics if name is empty.
func PathValue(name string) KeyFunc {
	if name == "" {
		panic(`lockbeat: httpmw.PathValue needs the name of a wildcard of the route, such as "id" for /accounts/{id}`)
	}
	return func(r *http.Request) (string, error) {
		path, known := resource(r.Pattern, name, r.PathValue)
		switch value := r.PathValue(name); {
		case value == "" && known:
			return "", fmt.Errorf("%w: the path has no value for {%s}", ErrKey, name)
		case value == "":
			return "", wildcardFault(r.Pattern, name)
		case !known:
			return lockmw.Key(name, plain(value)), nil
		}
		return path, nil
	}
}

// errWildcard means that a route has no wildcard of the name that PathValue was given. No request
// will change that.
var errWildcard = fmt.Errorf("%w: unknown wildcard", renewer.ErrConfig)

func wildcardFault(pattern, name string) error {
	if pattern == "" {
		return fmt.Errorf("%w: the router has told of no route, in which httpmw.PathValue looks for {%s}: put the lock on a route of "+
			"http.ServeMux or chi, or name it by a function", errWildcard, name)
	}
	return fmt.Errorf("%w: the route %q has no wildcard {%s} for httpmw.PathValue: put the lock on the route itself, or name it by a function",
		errWildcard, pattern, name)
}

// Header names the lock by a header: lockmw.Key of the header's canonical name and its value, such as "Idempotency-Key:8e03". A
// header that is missing, empty, repeated, or has control bytes in it, is answered with 400. It panics if name is empty.
func Header(name string) KeyFunc {
	if name == "" {
		panic(`lockbeat: httpmw.Header needs the name of a header, such as "Idempotency-Key"`)
	}
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		switch values := r.Header[name]; {
		case len(values) == 0 || values[0] == "":
			return "", fmt.Errorf("%w: the header %s is missing", ErrKey, name)
		case len(values) > 1:
			return "", fmt.Errorf("%w: the header %s is there %d times, send it once", ErrKey, name, len(values))
		case strings.ContainsFunc(values[0], isControl):
			return "", fmt.Errorf("%w: the header %s has control bytes in it", ErrKey, name)
		default:
			return lockmw.Key(name, values[0]), nil
		}
	}
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// keyFault makes the error for a request whose key function failed.
func keyFault(r *http.Request, err error) error {
	switch {
	case r.Context().Err() != nil:
		return ended(r)
	case errors.Is(err, ErrKey), errors.Is(err, renewer.ErrConfig):
		return err
	default:
		return fmt.Errorf("%w: its key function failed: %w", ErrKey, err)
	}
}
