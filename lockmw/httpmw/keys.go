package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// PathValue is a key function: lockmw.Key of what kind of thing the lock is on
// and the value of the route's wildcard. PathValue("account", "id") on
// "/accounts/{id}" makes "account:7" of "/accounts/7". Values that differ in
// percent-encoding only are the same.
//
// It works where net/http knows the route: on handlers of an http.ServeMux, and with
// chi on r.With, r.Group and below r.Route. A request without a value is answered with
// 400. If the route has no such wildcard, the answer is 500, and the keeper's observer
// is told why. It panics if kind or wildcard is empty.
func PathValue(kind, wildcard string) func(*http.Request) lockmw.Set {
	return pathKey("PathValue", kind, wildcard,
		func(value string) (string, error) { return value, nil })
}

// PathInt is [PathValue] for a whole number: "7", "07" and "+7" are one name.
// Anything else than a decimal number of 64 bits, with or without a sign, is
// answered with 400.
func PathInt(kind, wildcard string) func(*http.Request) lockmw.Set {
	return pathKey("PathInt", kind, wildcard, func(value string) (string, error) {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return strconv.FormatInt(n, 10), nil
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return "", errors.New("is no whole number of 64 bits")
		}
		return strconv.FormatUint(n, 10), nil
	})
}

// PathUUID is [PathValue] for a UUID, in upper or lower case, with or without
// hyphens, in braces or after "urn:uuid:". Anything else is answered with 400.
func PathUUID(kind, wildcard string) func(*http.Request) lockmw.Set {
	return pathKey("PathUUID", kind, wildcard, func(value string) (string, error) {
		id, err := uuid.Parse(value)
		if err != nil {
			return "", errors.New("is no UUID")
		}
		return id.String(), nil
	})
}

// pathKey names the lock by the canonical form of a wildcard's value.
func pathKey(
	function, kind, wildcard string, canonical func(value string) (string, error),
) func(*http.Request) lockmw.Set {
	if kind == "" || wildcard == "" {
		panic(fmt.Sprintf("lockbeat: httpmw.%s needs the kind of what is locked and a wildcard of "+
			`the route, such as "account" and "id" for /accounts/{id}`, function))
	}
	return func(r *http.Request) lockmw.Set {
		value := r.PathValue(wildcard)
		if value == "" {
			return lockmw.Set(names.Invalid(missing(r.Pattern, function, wildcard)))
		}
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
		value, err := canonical(value)
		if err != nil {
			err = fmt.Errorf("%w: the path's {%s} %w", ErrKey, wildcard, err)
			return lockmw.Set(names.Invalid(err))
		}
		return lockmw.All(lockmw.Key(kind, value))
	}
}

// missing says why a wildcard has no value: the request has none, or the route
// has no wildcard.
func missing(pattern, function, wildcard string) error {
	if slices.ContainsFunc([]string{"}", "...}", ":"}, func(end string) bool { // ":" is chi's
		return strings.Contains(pattern, "{"+wildcard+end)
	}) {
		return fmt.Errorf("%w: the path has no value for {%s}", ErrKey, wildcard)
	}
	return fmt.Errorf("%w: the route %q has no wildcard {%s} for httpmw.%s: put the lock on a "+
		"route of http.ServeMux or chi that has it, or name the lock by a function",
		renewer.ErrConfig, pattern, wildcard, function)
}
