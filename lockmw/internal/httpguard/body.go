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

// ErrBody is httpmw.ErrBody.
var ErrBody = errors.New("lockbeat: unusable body")

// Kept is a body that is in memory. It is closed as the one that it was read from.
type Kept struct {
	*bytes.Reader
	io.Closer
}

// Keep returns data as the body that it was read from.
func Keep(data []byte, from io.ReadCloser) io.ReadCloser {
	if from == nil || from == http.NoBody {
		return http.NoBody
	}
	return Kept{bytes.NewReader(data), from}
}

// ReadBody reads a request's body, of limit bytes at most, at a pace of 64 KiB in timeout. One that
// says itself that it is larger isn't begun. The error says what to answer.
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

// ReadAll reads what is to be read of the body of r.
func ReadAll(r *http.Request, from io.Reader) ([]byte, error) {
	const believed = 8 << 10 // of what a client says that it will send
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), believed)) + bytes.MinRead)
	_, err := b.ReadFrom(from)
	switch {
	case err == nil:
		return b.Bytes(), nil
	case errors.Is(err, ErrBody):
		return nil, err
	case r.Context().Err() == nil, errors.Is(err, os.ErrDeadlineExceeded):
		// with which net/http ends the context, too
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	default:
		return nil, Ended(r)
	}
}
