package httpmw

import (
	"bytes"
	"io"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// reads reports whether the body of r is to be read before the lock is asked for.
func (g *guard) reads(r *http.Request) bool {
	// whose body is a connection
	if r.Body == nil || r.Body == http.NoBody || g.streamBody || r.Method == http.MethodConnect {
		return false
	}
	k, ok := r.Body.(httpguard.Kept) // by a guard further out
	return !ok || g.maxBody > 0 && int64(k.Len()) > g.maxBody
}

// serveBody runs next under the lock, having read the body: all of it, or if it is large the
// beginning. The rest comes at a pace.
func (g *guard) serveBody(w http.ResponseWriter, r *http.Request, a ask, next http.Handler) {
	p := httpguard.Pace(w, r, g.bodyTimeout)
	defer p.Stop()
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

func (g *guard) receive(w http.ResponseWriter, r *http.Request, p *httpguard.Paced) (io.ReadCloser, error) {
	if g.maxBody > 0 {
		data, err := httpguard.ReadBody(w, r, g.maxBody, g.bodyTimeout)
		return httpguard.Keep(data, r.Body), err
	}
	first, err := httpguard.ReadAll(r, io.LimitReader(p, DefaultBodyBefore+1))
	if err != nil {
		return nil, err
	}
	if len(first) <= DefaultBodyBefore {
		return httpguard.Keep(first, r.Body), nil
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
