package idempotent

import (
	"errors"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/renewer"
)

// Middleware returns middleware that has a request carried out once, however often its client sends
// it. Requests of one caller with the same [KeyHeader] get the answer of the first, on any server,
// for as long as [KeepAnswer] says. See the package's text for the outcomes.
//
// The keeper's store must be a renewer.Recorder, as redisstore is, unless [RecordIn] is given.
//
// The function caller returns who sends a request, such as the authenticated user or the tenant:
// two callers may use the same key. The caller is hashed before it leaves the process. An empty
// caller and an error are answered with 400, or as an [*httpmw.Error] says.
//
// The request's body is read first, up to [MaxBody] and at the pace of [BodyTimeout]. The handler's
// writer keeps the answer in memory until it is stored, up to [MaxAnswer]. So it is no http.Flusher
// or http.Hijacker; http.ResponseController sets the connection's deadlines.
//
// What Middleware returns may be called concurrently, and then calls caller
// concurrently. A panic of caller or of the handler passes through. It
// panics if k, caller or the handler is nil, or if an option can't be meant.
func Middleware(
	k *renewer.Keeper, caller httpmw.KeyFunc, opts ...Option,
) func(http.Handler) http.Handler {
	if k == nil || caller == nil {
		panic("lockbeat: idempotent.Middleware needs a keeper (renewer.New) and a function that " +
			"says who sends a request")
	}
	set := newSettings()
	for _, o := range opts {
		o(&set)
	}
	repeats, err := repeat.New(k, set.Settings)
	if err != nil {
		panic(err.Error())
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: idempotent.Middleware needs a handler")
		}
		g := &guard{
			settings: set, Faults: httpguard.Faults{Keeper: k}, caller: caller, repeats: repeats,
		}
		g.gate = newGate(set.beforeReplay, g.refuse)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.serve(w, r, next)
		})
	}
}

// serve finds out which request r is, and has it answered.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := repeat.Key(r.Header.Values(KeyHeader))
	if errors.Is(err, repeat.ErrNoKey) && g.keyOptional {
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	caller, err := g.caller(r)
	if err == nil && caller == "" {
		err = errors.New("it does not say who sends the request")
	}
	if err != nil {
		g.refuse(w, r, httpguard.KeyFault(r, err))
		return
	}
	original := r.Body
	body, err := g.read(w, r)
	defer func() { r.Body = original }() // net/http looks at the type of its own body
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	fingerprint, parts := about(r, body)
	g.answer(w, r, body, next, g.repeats.Request(caller, key, fingerprint, parts))
}

// read reads the body, and leaves it in the request.
func (g *guard) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := httpguard.ReadBody(w, r, g.maxBody, g.bodyTimeout)
	if err == nil {
		r.Body = httpguard.Keep(body, r.Body)
	}
	return body, err
}
