package httpmw

import (
	"context"
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

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

// ask is what a request asks for.
type ask struct {
	name   string // the lock's
	client string // whose request it is, if that counts
}

// refuse answers a request that was refused with err, and tells of an error that no request would
// fare better with.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(err)
	g.answers.refuse(w, r, err)
}

// serve runs do under the lock, or says why not.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, a ask, do work) {
	g.CheckTimeout(r, g.longest)
	ctx, exit, err := g.enter(r, a)
	if err == nil {
		held{ctx, exit}.run(w, r, do, &g.settings)
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
