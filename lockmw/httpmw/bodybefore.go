package httpmw

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// bodyBefore is how many bytes of body are read before the lock, unless MaxBody has all of it read.
const bodyBefore = 256 << 10

// reads reports whether the body of r is to be read before the lock is asked for.
func (g *guard) reads(r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody || g.streamBody ||
		r.Method == http.MethodConnect { // its body is a connection
		return false
	}
	k, ok := r.Body.(httpguard.Kept) // a guard further out has read it
	return !ok || g.maxBody > 0 && int64(k.Len()) > g.maxBody
}

// serveBody reads the body, and then runs next under the lock. Of a large body it reads the
// beginning; next reads the rest, at a pace.
func (g *guard) serveBody(w http.ResponseWriter, r *http.Request, a ask, next http.Handler) {
	p := httpguard.Pace(w, r, g.bodyTimeout)
	defer p.Stop()
	body, err := g.receive(w, r, p)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.serve(w, r, a, func(w http.ResponseWriter, r *http.Request) {
		r.Body = body // r is a copy: net/http looks at the type of its own body
		next.ServeHTTP(w, r)
	})
}

// receive reads what is to be read before the lock, and returns the whole body.
func (g *guard) receive(
	w http.ResponseWriter, r *http.Request, p *httpguard.Paced,
) (io.ReadCloser, error) {
	if g.maxBody > 0 {
		data, err := httpguard.ReadBody(w, r, g.maxBody, g.bodyTimeout)
		return httpguard.Keep(data, r.Body), err
	}
	first, err := httpguard.ReadAll(r, io.LimitReader(p, bodyBefore+1))
	if err != nil {
		return nil, err
	}
	if len(first) <= bodyBefore {
		return httpguard.Keep(first, r.Body), nil
	}
	g.checkDeadlines(w, r)
	if r.ProtoMajor == 1 {
		// Otherwise net/http reads the rest by itself, without a pace, when the handler begins to
		// answer before it has read the whole body. The client would hold the lock after all.
		w.Header().Set("Connection", "close")
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), p), p}, nil
}

// checkDeadlines tells the keeper's observer of a writer that can't stop a client which is slow to
// send. Its request is carried out all the same, at any pace.
func (g *guard) checkDeadlines(w http.ResponseWriter, r *http.Request) {
	if httpguard.SetsDeadlines(w) {
		return
	}
	g.Tell(&g.deadlines, fmt.Errorf("%w: the http.ResponseWriter on the route %q can't set a "+
		"read deadline: a client that is slow to send more than %d KiB of body holds its lock for "+
		"as long as it likes; let the writers of middleware outside of the lock have "+
		"Unwrap() http.ResponseWriter, or have bodies read before the lock by httpmw.MaxBody",
		renewer.ErrConfig, r.Pattern, bodyBefore>>10))
}
