package idempotent

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// gate is the middleware of BeforeReplay. Answers in place of the handler's go through it.
type gate struct{ through http.Handler }

// errGate means that the middleware has lost the answer that was to go through it.
var errGate = fmt.Errorf("%w: the middleware given to idempotent.BeforeReplay has lost the "+
	"request's context: let it pass on the request that it gets, or one made of it by "+
	"WithContext or Clone", renewer.ErrConfig)

// newGate returns nil without middleware. A nil gate lets every answer through.
func newGate(before func(http.Handler) http.Handler, refuse httpmw.Responder) *gate {
	if before == nil {
		return nil
	}
	g := new(gate)
	g.through = before(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := r.Context().Value(g).(http.HandlerFunc)
		if !known {
			refuse(w, r, errGate)
			return
		}
		answer(w, r)
	}))
	if g.through == nil {
		panic("lockbeat: the middleware given to idempotent.BeforeReplay has returned no handler")
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
