package httpmw

import (
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// Exclusive returns middleware that runs a handler under the lock on the name that key derives from
// the request. Of all requests with the same name, one runs at a time, on any server. See the
// package's text for the outcomes.
//
// The body is read after the key function and before the lock is asked for, up to [MaxBody]; or by
// the handler, with [StreamBody].
//
// The handler gets the very http.ResponseWriter that it would get without, unless [AbortLost] is
// given. The context of its request ends when the client has gone or the lock is lost.
//
// Put it inside of http.TimeoutHandler, never around it: that one answers when its time is over,
// and its handler goes on. Let that time, and http.Server.WriteTimeout, exceed the wait ([Wait],
// 10 s by default) and the handler's work together.
//
// Apply what Exclusive returns once to each handler, when the program starts, and not for each
// request, as echo.WrapMiddleware does: each application counts its own waiters. Package ginmw is
// for gin, and docs/http.md has a bridge for echo.
//
// What Exclusive returns may be called concurrently, and then calls key concurrently. A panic of
// key or of the handler passes through, and frees the lock. It panics if k, key or the handler is
// nil.
func Exclusive(k *renewer.Keeper, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	if k == nil || key == nil {
		panic("lockbeat: httpmw.Exclusive needs a keeper (renewer.New) and a key function such " +
			"as httpmw.PathInt")
	}
	set := newSettings(k, opts)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: httpmw.Exclusive needs a handler to put the lock around")
		}
		g := newGuard(k, set)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, err := key(r)
			if err != nil {
				g.refuse(w, r, httpguard.KeyFault(r, err))
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
