package httpmw

import (
	"context"
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// Exclusive returns middleware that runs a handler under the lock on the name
// that key derives from the request: of all requests with the same name, one
// runs at a time, on any server. See the package's text for the outcomes.
//
// The body is read before the lock is asked for, and after the key function, unless it is larger
// than [DefaultBodyBefore]: then the rest is read under the lock, and has to come at a pace. See
// "Slow clients" in the package's text, and [MaxBody], [BodyTimeout] and [StreamBody].
//
// The handler gets the very http.ResponseWriter that it would get without,
// and a request whose context ends when the client has gone or when the lock
// is lost. It may be called concurrently, and then calls key concurrently. A
// panic of key or of the handler passes through, having freed the lock.
//
// It panics if k, key or the handler is nil.
func Exclusive(k *renewer.Keeper, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	if k == nil || key == nil {
		panic("lockbeat: httpmw.Exclusive needs a keeper (renewer.New) and a key function such " +
			"as httpmw.PathValue")
	}
	set := newSettings()
	set.maxBody = 0
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
			client := ""
			if err == nil {
				client, err = g.clients.sender(r)
			}
			switch {
			case err != nil:
				g.refuse(w, r, httpguard.KeyFault(r, err))
			case g.reads(r):
				g.serveBody(w, r, ask{name, client}, next)
			default:
				g.serve(w, r, ask{name, client}, next.ServeHTTP)
			}
		})
	}
}

// guard puts a lock around what handles a request.
type guard struct {
	settings
	httpguard.Faults

	deadlines sync.Once
	clients   *clients
	unlocked  *unlocked
}

func newGuard(k *renewer.Keeper, set settings) *guard {
	return &guard{
		settings: set, Faults: httpguard.Faults{Keeper: k},
		clients: newClients(set), unlocked: newUnlocked(k, &set),
	}
}

type work func(http.ResponseWriter, *http.Request)

// ask is what a request asks for.
type ask struct {
	name   string // the lock's
	client string // whose request it is, if that counts
}

// serve runs do under the lock, or says why not.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, a ask, do work) {
	g.CheckTimeout(r, g.longest)
	ctx, exit, err := g.enter(r, a)
	if err == nil {
		g.run(w, r, do, held{ctx, exit})
		return
	}
	without, leave := g.unlocked.enter(r.Context(), a.name, g.operationOr(r.Pattern), err)
	if without == nil {
		g.refuse(w, r, err)
		return
	}
	defer leave()
	httpguard.Serve(without, w, r, do)
}

// enter takes the lock. Until it is had or refused, the request counts as its client's.
func (g *guard) enter(
	r *http.Request, a ask,
) (operation context.Context, exit func(error) error, err error) {
	leave, err := g.clients.enter(a.client)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	// Strict, so that a loss is always told: what becomes of it is decided by what has been
	// written.
	return lockmw.Enter(r.Context(), g.Keeper, a.name,
		append(g.lock(r.Pattern), lockmw.Strict())...)
}
