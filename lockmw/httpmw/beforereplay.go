package httpmw

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// BeforeReplay puts mw before stored answers. A stored answer is sent without the handler, and so
// without what the handler checks, such as whether the caller may still do this: a caller whose
// rights were revoked gets it for as long as [KeepAnswer] says. Where authorization stands further
// out than [Idempotent] it decides on every request, and nothing more is needed. Where it can't,
// give it as mw: then all that is answered in place of the handler goes through it, which is stored
// answers, and refusals that show that a key is known (409, 422) or full (429). What mw refuses it
// answers itself, and nothing of the record goes out. The handler is not behind mw.
//
// mw is called once for each handler, and gets the request with its body unread; it must pass the
// request on with a context that is made of the request's. The handler that mw returns may be
// called concurrently. It panics if mw is nil, and [Idempotent]'s middleware if mw returns nil.
func BeforeReplay(mw func(http.Handler) http.Handler) IdempotentOption {
	if mw == nil {
		panic("lockbeat: httpmw.BeforeReplay needs middleware, such as the one that authorizes")
	}
	return idempotentOption(func(s *settings) { s.beforeReplay = mw })
}

// gate is what stands before answers in place of the handler's.
type gate struct{ through http.Handler }

// errGate means that there is no telling what to answer.
var errGate = fmt.Errorf("%w: the middleware given to httpmw.BeforeReplay has lost the request's "+
	"context: let it pass on the request "+
	"that it gets, or one made of it by WithContext or Clone", renewer.ErrConfig)

// newGate returns nil without middleware.
func (i *idempotent) newGate() *gate {
	if i.beforeReplay == nil {
		return nil
	}
	g := new(gate)
	g.through = i.beforeReplay(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := r.Context().Value(g).(http.HandlerFunc)
		if !known {
			i.refuse(w, r, errGate)
			return
		}
		answer(w, r)
	}))
	if g.through == nil {
		panic("lockbeat: the middleware given to httpmw.BeforeReplay has returned no handler")
	}
	return g
}

// let answers a request if the middleware lets it through.
func (g *gate) let(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	if g == nil {
		answer(w, r)
		return
	}
	httpguard.Serve(context.WithValue(r.Context(), g, answer), w, r, g.through.ServeHTTP)
}
