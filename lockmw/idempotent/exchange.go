package idempotent

import (
	"cmp"
	"context"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

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
