package httpmw

import (
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// Exclusive returns middleware that runs a handler under the lock on the name
// that key derives from the request: of all requests with the same name, one
// runs at a time, on any server. See the package's text for the outcomes.
//
// The body is read before the lock is asked for, and after the key function, unless it is larger
// than 256 KiB: then the rest is read under the lock, and has to come at a pace. See
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
