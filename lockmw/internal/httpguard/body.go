package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

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
