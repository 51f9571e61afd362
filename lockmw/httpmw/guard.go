package httpmw

import (
	"context"
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// guard is what all requests to one handler share.
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
	name   string // of the lock
	client string // who sends the request; "" if that does not count
}

// refuse answers a request that was refused with err. It tells the keeper's
// observer of an error that every request gets, since the server is set up wrongly.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(err)
	g.answers.refuse(w, r, err)
}

// serve runs do under the lock, or answers why it did not.
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

// enter takes the lock. Until it is had or refused, the request counts for its client.
func (g *guard) enter(
	r *http.Request, a ask,
) (operation context.Context, exit func(error) error, err error) {
	leave, err := g.clients.enter(a.client)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	// Strict, so that a loss is always reported: run decides what it means by what was written.
	return lockmw.Enter(r.Context(), g.Keeper, a.name,
		append(g.lock(r.Pattern), lockmw.Strict(), lockmw.AnswerInTime())...)
}
