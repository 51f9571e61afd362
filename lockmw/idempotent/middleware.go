package idempotent

import (
	"errors"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// Idempotent returns middleware that has a request carried out once, however often the client sends
// it: requests of one caller with the same [KeyHeader] get the answer of the first, on
// any server, for as long as [KeepAnswer] says. It stands on package once, so the keeper's store
// must be a renewer.Recorder, as redisstore is. See the package's text for the outcomes.
//
// caller tells who sends a request, such as the authenticated user, or the tenant: two callers
// may use the same key. The name is hashed before it leaves the process. A caller that is empty
// is refused like a bad key. Where services share a Redis, give each its [Scope].
//
// A stored answer goes out without the handler, and so without what the handler checks: put
// authorization further out, or give it to [BeforeReplay].
//
// The request's body is read first, up to [MaxBody] and at the pace of [BodyTimeout]. The answer
// is kept in memory until it is stored, up to [MaxAnswer], so the handler's writer is no
// http.Flusher or http.Hijacker; http.ResponseController sets the connection's deadlines. The
// handler's context ends when the lock is lost, or [FinishWithin] after the client has gone. It
// panics if k, caller or the handler is nil, or if an option can't be meant.
func Middleware(
	k *renewer.Keeper, caller httpmw.KeyFunc, opts ...Option,
) func(http.Handler) http.Handler {
	if k == nil || caller == nil {
		panic("lockbeat: idempotent.Middleware needs a keeper (renewer.New) and a function that " +
			"tells who sends a request")
	}
	set := newSettings()
	for _, o := range opts {
		o(&set)
	}
	if err := check(k, &set); err != nil {
		panic(err.Error())
	}
	stored := newStored(set)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: idempotent.Middleware needs a handler")
		}
		g := &guard{
			settings: set, Faults: httpguard.Faults{Keeper: k}, caller: caller, stored: stored,
		}
		g.gate = newGate(set.beforeReplay, g.refuse)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.serve(w, r, next)
		})
	}
}

func (g *guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := idempotencyKey(r.Header)
	if errors.Is(err, errNoKey) && g.keyOptional {
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	caller, err := g.caller(r)
	if err == nil && caller == "" {
		err = errors.New("nobody knows who sends it")
	}
	if err != nil {
		g.refuse(w, r, httpguard.KeyFault(r, err))
		return
	}
	original := r.Body
	body, err := g.read(w, r)
	defer func() { r.Body = original }() // net/http goes by the type of its own
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.answer(w, r, next, &job{
		caller: hash(caller), name: lockmw.Key("idempotency", hash(g.scope, caller, key)),
		input: fingerprint(r, body), body: body,
	})
}

// read reads the body, and puts it back.
func (g *guard) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := httpguard.ReadBody(w, r, g.maxBody, g.bodyTimeout)
	if err == nil {
		r.Body = httpguard.Keep(body, r.Body)
	}
	return body, err
}
