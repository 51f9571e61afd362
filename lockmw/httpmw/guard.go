package httpmw

import (
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// guard is what all requests to one handler share.
type guard struct {
	settings
	httpguard.Faults

	clients  *clients
	unlocked *unlocked
}

func newGuard(k *renewer.Keeper, set settings) *guard {
	return &guard{
		settings: set, Faults: httpguard.Faults{Keeper: k},
		clients: newClients(&set), unlocked: newUnlocked(k, &set),
	}
}

// refuse answers a request that was refused with err. It tells the keeper's
// observer of an error that every request gets, since the server is set up wrongly.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(err)
	g.settings.refuse(w, r, err)
}

// serve runs do under the lock, or answers why it did not.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, name string, do work) {
	g.CheckTimeout(r, g.longest)
	lock, err := g.acquire(r, name)
	switch {
	case err == nil:
		lock.run(w, r, do, &g.settings)
	case !g.unlocked.serve(w, r, name, g.operationOr(r.Pattern), err, do):
		g.refuse(w, r, err)
	}
}

// acquire takes the lock. Until it is had or refused, the request counts for its client.
func (g *guard) acquire(r *http.Request, name string) (held, error) {
	leave, err := g.clients.count(r)
	if err != nil {
		return held{}, err
	}
	defer leave()
	// Strict, so that a loss is always reported: run decides what it means by what was written.
	ctx, exit, err := lockmw.Enter(r.Context(), g.Keeper, name,
		append(g.lock(r.Pattern), lockmw.Strict(), lockmw.AnswerInTime())...)
	return held{ctx, exit, g.Keeper, name, g.operationOr(r.Pattern)}, err
}
