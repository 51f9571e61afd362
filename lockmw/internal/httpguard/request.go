// Package httpguard has what the guards of packages httpmw and idempotent
// share: bodies that are read before a lock is asked for; the request that a
// guard passes on; marks between guards; types of problem documents; and
// reports of a server that is set up wrongly.
package httpguard

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

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

// RefusedHeader marks an answer as a guard's refusal, for a recorder further
// out, which takes it off. It is a header, so that it goes where the answer
// goes: through writers of other middleware, and not out of a handler that has
// dealt with the refusal.
const RefusedHeader = "Lockbeat-Refused"

type recordedKey struct{}

// Recorded returns the context of a request whose answer is recorded.
func Recorded(ctx context.Context) context.Context {
	return context.WithValue(ctx, recordedKey{}, true)
}

// IsRecorded reports whether the answer to a request is recorded.
func IsRecorded(r *http.Request) bool { return r.Context().Value(recordedKey{}) != nil }

// refusedMark is the value of RefusedHeader. It differs from process to
// process, so that no server behind a handler can mark its answer.
var refusedMark = rand.Text()

// MarkRefused marks an answer to r as a refusal, if the answer is recorded.
func MarkRefused(h http.Header, r *http.Request) {
	if IsRecorded(r) {
		h.Set(RefusedHeader, refusedMark)
	}
}

// TakeMark reports whether an answer with these headers is a guard's
// refusal, and takes the mark off.
func TakeMark(h http.Header) (refused bool) {
	refused = h.Get(RefusedHeader) == refusedMark
	h.Del(RefusedHeader)
	return refused
}

// DefaultMaxBody is how many bytes of body a guard reads unless it is told
// otherwise: 1 MiB.
const DefaultMaxBody = 1 << 20

// memory is a body in memory. Closing it closes the body that it was read from.
type memory struct {
	*bytes.Reader
	io.Closer
}

// ReadBody reads the body of r, of limit bytes at most, and leaves it in r, to
// be read again, until restore is called: net/http looks at the type of its own
// body. It does not begin a body whose length is above the limit, nor one that
// is a connection. Errors are ErrBody, or Ended.
func ReadBody(
	w http.ResponseWriter, r *http.Request, limit int64,
) (data []byte, restore func(), err error) {
	own := r.Body
	restore = func() { r.Body = own }
	if own == nil || own == http.NoBody || r.Method == http.MethodConnect {
		return nil, restore, nil
	}
	if r.ContentLength > limit {
		return nil, restore, fmt.Errorf("%w: %w", ErrBody, &http.MaxBytesError{Limit: limit})
	}
	const believed = 8 << 10 // bytes that a client may have set aside by its Content-Length
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), believed)) + bytes.MinRead)
	_, err = b.ReadFrom(http.MaxBytesReader(w, own, limit))
	switch {
	case err == nil:
		r.Body = memory{bytes.NewReader(b.Bytes()), own}
		return b.Bytes(), restore, nil
	case r.Context().Err() == nil, errors.Is(err, os.ErrDeadlineExceeded):
		// After a read deadline net/http ends the context, too.
		return nil, restore, fmt.Errorf("%w: %w", ErrBody, err)
	default:
		return nil, restore, Ended(r)
	}
}
