package idempotent

import (
	"errors"
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// guard is what all requests to one handler share.
type guard struct {
	settings
	httpguard.Faults

	caller  httpmw.KeyFunc
	repeats *repeat.Guard
	gate    *gate // nil: none

	unreadable sync.Once
}

// refuse answers a request that was refused with err. It tells the keeper's
// observer of a server that is set up wrongly, and of a stored answer that can't
// be read: a key of Seal may be missing, or another program may have written it.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(err)
	if errors.Is(err, once.ErrRecord) {
		g.Tell(&g.unreadable, err)
	}
	e := explain(err, g.retryIn)
	typ := e.Type
	if typ == "" { // the caller function made it
		typ = httpmw.ErrorOf(e.Err).Type
	}
	respond := g.onError
	switch {
	case typ == httpmw.TypeBusy:
		respond = g.onBusy
	case typ == httpmw.TypeLost:
		respond = httpmw.Respond
	case typ == httpmw.TypeTimeout && lockmw.RefusalOf(e.Err) == lockmw.RefusalCancelled:
		panic(http.ErrAbortHandler) // the client has gone: see docs/http.md
	}
	httpguard.MarkRefused(w.Header(), r)
	respond(w, r, e)
}
