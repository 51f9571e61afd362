package httpmw

import (
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Exclusive returns middleware that runs a handler under the lock on the name that key derives from the request: of all requests
// with the same name, one runs at a time, on any server. See the package's text for the outcomes.
//
// The handler gets the very http.ResponseWriter that it would get without, and a request whose context ends when the client has
// gone or when the lock is lost. It may be called concurrently, and then calls key concurrently. A panic of key or of the handler
// passes through, having freed the lock.
//
// It panics if k, key or the handler is nil.
func Exclusive(k *renewer.Keeper, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	if k == nil || key == nil {
		panic("lockbeat: httpmw.Exclusive needs a keeper (renewer.New) and a key function such as httpmw.PathValue")
	}
	set := newSettings()
	for _, o := range opts {
		o.exclusive(&set)
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: httpmw.Exclusive needs a handler to put the lock around")
		}
		g := newGuard(k, set)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, err := key(r)
			if err != nil {
				g.refuse(w, r, keyFault(r, err))
				return
			}
			g.serve(w, r, name, next.ServeHTTP)
		})
	}
}

// guard puts a lock around what handles a request.
type guard struct {
	server

	unlocked *unlocked
}

func newGuard(k *renewer.Keeper, set settings) *guard {
	return &guard{server{settings: set, keeper: k}, newUnlocked(k, &set)}
}

type work func(http.ResponseWriter, *http.Request)

// serve runs do under the lock on name, or says why not.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, name string, do work) {
	g.checkTimeout(r, g.longest)
	// Strict, so that a loss is always told: what becomes of it is decided by what has been written.
	ctx, exit, err := lockmw.Enter(r.Context(), g.keeper, name, append(g.lock(r.Pattern), lockmw.Strict())...)
	if err == nil {
		g.run(w, r, do, held{ctx, exit})
		return
	}
	without, leave := g.unlocked.enter(r.Context(), name, g.operationOr(r.Pattern), err)
	if without == nil {
		g.refuse(w, r, err)
		return
	}
	defer leave()
	pass(without, w, r, do)
}
