package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/ended"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrKey is httpmw.ErrKey.
var ErrKey = errors.New("lockbeat: no key in the request")

// ErrBody is httpmw.ErrBody.
var ErrBody = errors.New("lockbeat: unusable body")

// KeyFault returns the error for a request whose key function failed with err.
func KeyFault(r *http.Request, err error) error {
	switch {
	case r.Context().Err() != nil:
		return Ended(r)
	case errors.Is(err, ErrKey), errors.Is(err, renewer.ErrConfig):
		return err
	default:
		return fmt.Errorf("%w: its key function failed: %w", ErrKey, err)
	}
}

// Ended returns the error for a request whose context has ended.
func Ended(r *http.Request) error { return ended.Error(r.Context()) }

// Serve calls do with a copy of r on ctx. Afterwards r has what
// net/http and outer middleware look for in it.
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
