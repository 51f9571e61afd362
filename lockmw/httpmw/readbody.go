package httpmw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// kept is a body that is in memory. It is closed as the one that it was read from.
type kept struct {
	*bytes.Reader
	io.Closer
}

// keep returns data as the body that it was read from.
func keep(data []byte, from io.ReadCloser) io.ReadCloser {
	if from == nil || from == http.NoBody {
		return http.NoBody
	}
	return kept{bytes.NewReader(data), from}
}

// readBody reads a request's body, of limit bytes at most, at a pace of 64 KiB in timeout. One that
// says itself that it is larger isn't begun. The error says what to answer.
func readBody(
	w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration,
) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, fmt.Errorf("%w: %w", ErrBody, &http.MaxBytesError{Limit: limit})
	}
	p := pace(w, r, timeout)
	defer p.stop()
	return readAll(r, http.MaxBytesReader(w, p, limit))
}

// readAll reads what is to be read of the body of r.
func readAll(r *http.Request, from io.Reader) ([]byte, error) {
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
		return nil, ended(r)
	}
}

// reads reports whether the body of r is to be read before the lock is asked for.
func (g *guard) reads(r *http.Request) bool {
	// whose body is a connection
	if r.Body == nil || r.Body == http.NoBody || g.streamBody || r.Method == http.MethodConnect {
		return false
	}
	k, ok := r.Body.(kept) // by a guard further out
	return !ok || g.maxBody > 0 && int64(k.Len()) > g.maxBody
}

// serveBody runs next under the lock, having read the body: all of it, or if it is large the
// beginning. The rest comes at a pace.
func (g *guard) serveBody(w http.ResponseWriter, r *http.Request, a ask, next http.Handler) {
	p := pace(w, r, g.bodyTimeout)
	defer p.stop()
	body, err := g.receive(w, r, p)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.serve(w, r, a, func(w http.ResponseWriter, r *http.Request) {
		r.Body = body // of a request of our own: net/http goes by the type of its own body
		next.ServeHTTP(w, r)
	})
}

func (g *guard) receive(w http.ResponseWriter, r *http.Request, p *paced) (io.ReadCloser, error) {
	if g.maxBody > 0 {
		data, err := readBody(w, r, g.maxBody, g.bodyTimeout)
		return keep(data, r.Body), err
	}
	first, err := readAll(r, io.LimitReader(p, DefaultBodyBefore+1))
	if err != nil {
		return nil, err
	}
	if len(first) <= DefaultBodyBefore {
		return keep(first, r.Body), nil
	}
	g.checkDeadlines(w, r)
	if r.ProtoMajor == 1 {
		// Otherwise net/http reads on by itself, without a pace, when the handler begins to answer
		// and has not read the body to its end: the client would have the lock after all.
		w.Header().Set("Connection", "close")
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), p), p}, nil
}
