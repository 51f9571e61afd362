package httpmw

import (
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Middleware runs a handler under the lock on the name that key makes of the
// request. Put it on the route, inside authentication and http.TimeoutHandler,
// outside of a transaction.
//
// key must not read the body: for that there is [Wrap]. It must read the
// request as the handler does: "7" and "07" are two names, and to a handler
// that parses numbers one account: see [PathInt] and [PathUUID]. A name that is
// invalid (lockmw.Invalid) is answered with 400, or as an [*Error] in it says.
// Of an empty one and one too long the keeper's observer is told now and then:
// it mostly is key's mistake.
//
// The body is read after key and before the lock, up to [MaxBody].
//
// Apply what Middleware returns once to each handler, when the program starts:
// each application counts its own waiters. key is called concurrently. A panic
// passes through, and frees the lock. It panics if k, key or the handler is
// nil.
func Middleware[N lockmw.Name](
	k *renewer.Keeper, key func(*http.Request) N, opts ...Option,
) func(http.Handler) http.Handler {
	if k == nil || key == nil {
		panic("lockbeat: httpmw.Middleware needs a keeper (renewer.New) and a key function such " +
			"as httpmw.PathInt")
	}
	set := newSettings(k, opts)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: httpmw.Middleware needs a handler to put the lock around")
		}
		g := newGuard(k, set)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := names.Set(lockmw.All(key(r)))
			if err := httpguard.CheckName(r, name); err != nil { // before the body is read
				g.refuse(w, r, err)
				return
			}
			if !g.streamBody {
				_, restore, err := httpguard.ReadBody(w, r, g.maxBody)
				defer restore()
				if err != nil {
					g.refuse(w, r, err)
					return
				}
			}
			g.serve(w, r, name, next.ServeHTTP)
		})
	}
}
