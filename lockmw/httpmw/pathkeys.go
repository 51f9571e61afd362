package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/lockbeat/lockbeat/lockmw"
)

// PathValue names the lock by the path up to and including the wildcard {name} of the route, so
// that all routes below share it. With id 7 it is "/accounts/7" on "POST /accounts/{id}/transfer"
// and on "/accounts/{id}/close", and "/orders/7" on "/orders/{id}". Method and host are no part
// of it. For routes that name the same thing by different paths write a function instead.
//
// It works wherever the route is known: on handlers of an http.ServeMux, and with chi on r.With,
// r.Group and below r.Route. Values that differ in percent-encoding only are the same, since chi
// hands over some as they were sent. Where r.Pattern is another route's, but r.PathValue has a
// value, the name is lockmw.Key(name, value), which excludes more rather than less.
//
// A request without a value is answered with 400. If the route has no such wildcard, or the router
// sets no route, as echo, the answer is 500, and renewer.Config.Observer is told why, once for each
// handler. PathValue panics if name is empty.
//
// It is for handlers that take the value as it is. For handlers that parse it there are [PathInt],
// [PathUUID] and [PathAs].
func PathValue(name string) KeyFunc { return pathKey("PathValue", nil, name) }

// PathInt is [PathValue] for a wildcard whose value is a whole number: "7", "07" and "+7"
// name one lock, in the form that strconv writes. The wildcard is the last of names. The
// others are wildcards before it in the path that are whole numbers too. Anything else
// than a decimal number of 64 bits, with or without a sign, is answered with 400.
func PathInt(names ...string) KeyFunc { return pathKey("PathInt", canonicalInt, names...) }

// PathUUID is [PathValue] for a wildcard whose value is a UUID. In upper or lower case, with or
// without hyphens, in braces or after "urn:uuid:", it names one lock. The names are as with
// [PathInt]. Anything else is answered with 400.
func PathUUID(names ...string) KeyFunc { return pathKey("PathUUID", canonicalUUID, names...) }

// PathAs is [PathValue] for a wildcard whose value has several forms, such as upper and
// lower case. canonical returns the form that names the lock, the same for all values
// that the handler takes for the same. An error is answered with 400; one that is an
// [*Error] says itself what is answered. The names are as with [PathInt]. canonical may
// be called concurrently. PathAs panics if canonical is nil or a name is missing.
func PathAs(canonical func(value string) (string, error), names ...string) KeyFunc {
	if canonical == nil {
		panic("lockbeat: httpmw.PathAs needs a function that returns the canonical form of a value")
	}
	return pathKey("PathAs", canonical, names...)
}

// pathKey names the lock by the path up to the last of names. The values of all names are in their
// canonical form.
func pathKey(who string, canonical func(string) (string, error), names ...string) KeyFunc {
	if len(names) == 0 || slices.Contains(names, "") {
		panic(fmt.Sprintf("lockbeat: httpmw.%s needs the name of a wildcard of the route, "+
			`such as "id" for /accounts/{id}`, who))
	}
	name := names[len(names)-1]
	return func(r *http.Request) (string, error) {
		var fault error
		value := func(wildcard string) string {
			value := r.PathValue(wildcard)
			if canonical == nil || value == "" || !slices.Contains(names, wildcard) {
				return value
			}
			one, err := canonical(plain(value))
			if err == nil && one == "" {
				err = errors.New("has no canonical form")
			}
			if err != nil && fault == nil {
				fault = fmt.Errorf("%w: the path's {%s} %w", ErrKey, wildcard, err)
			}
			return one
		}
		path, known := resource(r.Pattern, name, value)
		last := value(name)
		switch {
		case fault != nil:
			return "", fault
		case last == "" && known:
			return "", fmt.Errorf("%w: the path has no value for {%s}", ErrKey, name)
		case last == "":
			return "", wildcardFault(who, r.Pattern, name)
		case !known:
			return lockmw.Key(name, plain(last)), nil
		}
		return path, nil
	}
}

// wildcardFault says why a route has no wildcard of that name.
func wildcardFault(who, pattern, name string) error {
	if pattern == "" {
		return fmt.Errorf("%w: the router has told of no route, in which httpmw.%s looks for "+
			"{%s}: put the lock on a route of http.ServeMux or chi, or name it by a "+
			"function", errWildcard, who, name)
	}
	return fmt.Errorf("%w: the route %q has no wildcard {%s} for httpmw.%s: put the lock on the "+
		"route itself, or name it by a function",
		errWildcard, pattern, name, who)
}
