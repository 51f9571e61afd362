package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Kept is a body in memory. Closing it closes the body that it was read from.
type Kept struct {
	*bytes.Reader
	io.Closer
}

// Keep returns data in place of the body that it was read from.
func Keep(data []byte, from io.ReadCloser) io.ReadCloser {
	if from == nil || from == http.NoBody {
		return http.NoBody
	}
	return Kept{bytes.NewReader(data), from}
}

// ReadBody reads a request's body of limit bytes at most, each 64 KiB within timeout. It
// does not begin a body whose length is above the limit. Errors are ErrBody, or Ended.
func ReadBody(
	w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration,
) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, fmt.Errorf("%w: %w", ErrBody, &http.MaxBytesError{Limit: limit})
	}
	p := Pace(w, r, timeout)
	defer p.Stop()
	return ReadAll(r, http.MaxBytesReader(w, p, limit))
}

// ReadAll reads the body of r from a reader to its end. Errors are ErrBody, or Ended.
func ReadAll(r *http.Request, from io.Reader) ([]byte, error) {
	const believed = 8 << 10 // bytes that a client may have set aside by its Content-Length
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), believed)) + bytes.MinRead)
	_, err := b.ReadFrom(from)
	switch {
	case err == nil:
		return b.Bytes(), nil
	case errors.Is(err, ErrBody):
		return nil, err
	case r.Context().Err() == nil, errors.Is(err, os.ErrDeadlineExceeded):
		// After a read deadline net/http ends the context, too.
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	default:
		return nil, Ended(r)
	}
}
