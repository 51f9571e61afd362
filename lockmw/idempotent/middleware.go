package idempotent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// keyHeader names a request, so that it can be sent again: 1 to 255 visible
// ASCII characters, with or without the quotes of a structured field's string.
// Source: draft-ietf-httpapi-idempotency-key-header.
const keyHeader = "Idempotency-Key"

// Middleware has requests carried out once: of those of one caller with the
// same Idempotency-Key the first runs the handler, and the others get its
// answer, on any server, for KeepAnswer.
//
// The keeper's store must be a store.Recorder, as redisstore is, unless the
// config has a Recorder. What Middleware returns may be called concurrently. A
// panic of Caller, Lock or the handler passes through. It panics if k, Caller
// or the handler is nil, and on a config that is invalid.
func Middleware(k *renewer.Keeper, c Config) func(http.Handler) http.Handler {
	set, err := c.settings(k)
	if err != nil {
		panic(err.Error())
	}
	repeats, err := repeat.New(k, set)
	if err != nil {
		panic(err.Error())
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: idempotent.Middleware needs a handler")
		}
		return &guard{
			Config: c, Faults: httpguard.NewFaults(k), repeats: repeats, next: next,
			maxAnswer: set.MaxAnswer, transactional: set.Transactional(),
		}
	}
}

// guard is what all requests to one handler share.
type guard struct {
	Config // with its defaults, but for maxAnswer and what repeats has
	*httpguard.Faults

	maxAnswer     int
	transactional bool
	repeats       *repeat.Guard
	next          http.Handler

	unreadable sync.Once
}

// ServeHTTP finds out which request r is, and has it answered.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		g.next.ServeHTTP(w, r) // safe by RFC 9110, 9.2.1: to repeat it changes nothing
		return
	}
	key, err := repeat.Key(r.Header.Values(keyHeader))
	if errors.Is(err, repeat.ErrNoKey) && g.KeyOptional {
		g.next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	caller := g.Caller(r)
	if caller == "" {
		g.refuse(w, r, httpguard.ErrNoCaller)
		return
	}
	under, err := g.under(r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	body, restore, err := httpguard.ReadBody(w, r, g.MaxBody)
	defer restore()
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.CheckTimeout(r, g.longest())
	g.answer(w, r, g.repeats.Request(caller, key, about(r, body)...), under)
}

// under is the lock that the handler runs under, nil without one.
func (g *guard) under(r *http.Request) (once.Option, error) {
	if g.Lock == nil {
		return nil, nil //nolint:nilnil // neither
	}
	set := names.Set(g.Lock(r))
	return g.repeats.Under(set, option.Settings{}), httpguard.CheckName(r, set)
}

// longest is how long a request may wait.
func (g *guard) longest() time.Duration {
	if g.Lock == nil {
		return g.WaitForAnswer
	}
	return min(g.WaitForAnswer, lockmw.NoBound-lockmw.DefaultWait) + lockmw.DefaultWait
}

// refuse answers a request that was refused with err. It tells the keeper's
// observer of a server that is set up wrongly, and of a stored answer that
// can't be read: one of the SealKeys may be missing, or another program may
// have written it.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.Misuse(r, err)
	if errors.Is(err, once.ErrRecord) {
		g.First(&g.unreadable, err)
	}
	httpguard.MarkRefused(w.Header(), r)
	g.OnRefused(w, r, explain(err))
}

// exchange is one request and its answer, which is the handler's or the stored
// one.
type exchange struct {
	*guard

	w http.ResponseWriter
	r *http.Request

	fresh  *recorder // the handler's answer; nil: the handler has not run here
	kept   answer    // the stored one
	unwind func()    // goes on with the handler's panic; nil: there is nothing to go on with
}

// answer has a request carried out, and sends its answer or the stored one.
func (g *guard) answer(
	w http.ResponseWriter, r *http.Request, which *repeat.Request, under once.Option,
) {
	e := &exchange{guard: g, w: w, r: r}
	outcome, err := g.repeats.Do(r.Context(), which, repeat.Work{
		Operation: cmp.Or(g.Operation, r.Pattern),
		Under:     under,
		Run:       e.run,
		Read:      func(stored []byte) error { return decodeAnswer(stored, &e.kept) },
	})
	if e.unwind != nil {
		e.unwind()
	}
	switch {
	case e.fresh != nil && e.fresh.large, // it has gone out, whatever has become of the lock
		outcome == repeat.OutcomeOwn:
		e.fresh.send()
	case outcome == repeat.OutcomeStored:
		e.kept.replay(w)
	default:
		e.refuse(w, r, err)
	}
}

// run runs the handler, and returns its answer for the store.
func (e *exchange) run(ctx context.Context) repeat.Answer {
	e.fresh = e.newRecorder()
	e.runHandler(ctx)
	if e.fresh.status == 0 && ctx.Err() != nil {
		return repeat.Answer{None: true}
	}
	given := e.fresh.answer()
	if !e.fresh.final() {
		return repeat.Answer{}
	}
	return repeat.Answer{Final: true, Data: encodeAnswer(given)}
}

// runHandler runs the handler. A panic passes through, except when a final
// answer that is too large to be stored has gone out: a client that leaves
// while it reads has some handlers panic, such as httputil.ReverseProxy, and
// must not have the request carried out again by that. Then unwind goes on with
// it, when the outcome is on record.
func (e *exchange) runHandler(ctx context.Context) {
	over := false
	defer func() {
		if !over && e.fresh.large && e.fresh.final() {
			if value := recover(); value != nil {
				e.unwind = func() { panic(value) }
			}
		}
	}()
	httpguard.Serve(httpguard.Recorded(ctx), e.fresh, e.r, e.next.ServeHTTP)
	over = true
}
