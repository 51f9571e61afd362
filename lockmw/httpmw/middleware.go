package httpmw

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
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

// guard is what all requests to one handler share.
type guard struct {
	settings
	*httpguard.Faults

	clients *clients
}

func newGuard(k *renewer.Keeper, set settings) *guard {
	return &guard{settings: set, Faults: httpguard.NewFaults(k), clients: newClients(&set)}
}

// serve runs do under the locks of a set that was checked, or answers why it
// did not, or that a lock was lost. A panic and runtime.Goexit of do pass
// through.
//
// If package idempotent records the answer, the writer is tracked in any case.
// A mark on an answer of the handler's own would keep that from being stored,
// and writers in between may take headers long after they have taken the
// answer.
func (g *guard) serve(
	w http.ResponseWriter, r *http.Request, set names.Set,
	do func(http.ResponseWriter, *http.Request),
) {
	g.CheckTimeout(r, g.longest)
	leave, err := g.clients.count(r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer leave()
	to, wrote := w, (*atomic.Bool)(nil)
	if g.Strict || httpguard.IsRecorded(r) {
		to, wrote = track(w)
	}
	ran, err := scope.Run(r.Context(), g.Keeper, set, g.lock(r), func(ctx context.Context) error {
		leave()
		httpguard.Serve(ctx, to, r, do)
		return nil // so that the error is the loss alone
	})
	switch {
	case err == nil:
	case ran && wrote == nil:
		answerUnseen(w, r, ErrorOf(err))
	case !ran || !wrote.Load():
		g.refuse(w, r, err)
	case g.Strict:
		panic(http.ErrAbortHandler)
	}
}

// refuse answers a request that was refused with err, or lost its lock before
// it answered. It tells the keeper's observer of an error that every request
// gets, since the server is set up wrongly.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(r, err)
	// Also if the client has gone: a server whose BaseContext ends cancels
	// requests of clients that are still there, and they must not get the empty
	// 200 of a handler that returns. (To end those by
	// panic(http.ErrAbortHandler) was rejected: recoverers log it, or make a
	// 500 of it.)
	httpguard.MarkRefused(w.Header(), r)
	g.respond(w, r, errorOf(err, g.busyStatus))
}

// answerUnseen makes a 503 of the empty 200 that net/http sends for a handler
// that has written nothing. If the handler has written something, which can't
// be known here, the writer ignores the call. It sends no body, which might
// come behind the handler's. (To find out what was written by an invalid
// WriteHeader and a recover would leave writers of other middleware in a wrong
// state.)
func answerUnseen(w http.ResponseWriter, r *http.Request, e *Error) {
	e.setHeaders(w.Header())
	httpguard.MarkRefused(w.Header(), r)
	w.WriteHeader(e.Status)
}

// keepsWindow reports whether a request must not wait with its body unread. By
// HTTP/2 all requests of a connection share one window for bodies, 1 MiB in
// net/http: bodies that nobody reads fill it, and then the lock's holder can't
// read its own. How much of a body is there is not known, and to read it first
// is what [StreamBody] was given against.
func keepsWindow(r *http.Request) bool {
	return r.ProtoMajor >= 2 && r.Method != http.MethodConnect && r.ContentLength != 0
}
