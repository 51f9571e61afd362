package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/ended"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ErrKey is httpmw.ErrKey.
var ErrKey = errors.New("lockbeat: no key in the request")

// ErrBody is httpmw.ErrBody.
var ErrBody = errors.New("lockbeat: unusable body")

var (
	// ErrNoName means that a key function has returned an empty name.
	ErrNoName = fmt.Errorf("%w: the key function has returned an empty one", renewer.ErrName)
	// ErrLongName means that a key function has returned a name that is too
	// long.
	ErrLongName = fmt.Errorf("%w: the key function has returned one of more than %d bytes",
		renewer.ErrName, store.MaxName)
	// ErrNoCaller means that a function that says who sends a request has
	// returned nobody.
	ErrNoCaller = fmt.Errorf("%w: the function that says who sends it has returned \"\"", ErrKey)
)

// CheckName returns the error for a request whose key function has returned no
// usable name. Of other faults package lockmw tells.
func CheckName(r *http.Request, set names.Set) error {
	one, _, err := set.One() // several were checked when they were joined
	switch {
	case errors.Is(err, names.ErrEmpty), err == nil && one.Name == "":
		return ErrNoName
	case errors.Is(err, names.ErrLong), len(one.Name) > store.MaxName:
		return ErrLongName
	case err == nil:
		return nil
	case r.Context().Err() != nil:
		return Ended(r)
	case errors.Is(err, ErrKey), errors.Is(err, renewer.ErrConfig):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
}

// Ended returns the error for a request whose context has ended.
func Ended(r *http.Request) error { return ended.Error(r.Context()) }

// Serve calls do with a copy of r on ctx. Afterwards r has what net/http and
// outer middleware look for in it.
func Serve(
	ctx context.Context, w http.ResponseWriter, r *http.Request,
	do func(http.ResponseWriter, *http.Request),
) {
	inner := r.WithContext(ctx)
	defer func() {
		if inner.Pattern != r.Pattern { // a mux inside has set it: otelhttp names its span by it
			r.Pattern = inner.Pattern
		}
		if inner.MultipartForm != nil { // net/http removes its files
			r.MultipartForm = inner.MultipartForm
		}
	}()
	do(w, inner)
}
