package httpmw

import (
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// guard is what all requests to one handler share.
type guard struct {
	settings
	httpguard.Faults

	clients *clients
}

func newGuard(k *renewer.Keeper, set settings) *guard {
	return &guard{settings: set, Faults: httpguard.Faults{Keeper: k}, clients: newClients(&set)}
}

// refuse answers a request that was refused with err. It tells the keeper's
// observer of an error that every request gets, since the server is set up wrongly.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(r, err)
	g.settings.refuse(w, r, err)
}

// serve runs do under the locks of a set that was checked, or answers why it did not.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, set names.Set, do work) {
	g.CheckTimeout(r, g.longest)
	lock, err := g.acquire(r, set)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	lock.run(w, r, do, &g.settings)
}

// acquire takes the locks. Until they are had or refused, the request counts for its client.
func (g *guard) acquire(r *http.Request, set names.Set) (held, error) {
	leave, err := g.clients.count(r)
	if err != nil {
		return held{}, err
	}
	defer leave()
	opt := g.lock(r)
	ctx, exit, err := scope.Enter(r.Context(), g.Keeper, set, opt)
	return held{ctx, exit, g.Keeper, set, opt.Operation}, err
}

// keepsWindow reports whether a request must not wait with its body unread. By HTTP/2 all requests
// of a connection share one window for bodies, 1 MiB in net/http: bodies that nobody reads fill it,
// and then the lock's holder can't read its own. How much of a body is there is not known, and to
// read it first is what [StreamBody] was given against.
func keepsWindow(r *http.Request) bool {
	return r.ProtoMajor >= 2 && r.Method != http.MethodConnect && r.ContentLength != 0
}
