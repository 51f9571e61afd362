package idempotent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// exchange is one request and its answer, which is the handler's or the stored one.
type exchange struct {
	*guard

	w    http.ResponseWriter
	r    *http.Request
	next http.Handler
	job  *job
	life *outliving

	fresh  *recorder       // the handler's answer; nil: the handler has not run here
	used   func(bytes int) // says what the answer takes in the store
	unwind func()          // goes on with the handler's panic; nil: there is nothing to go on with
}

// answer answers a request.
func (g *guard) answer(w http.ResponseWriter, r *http.Request, next http.Handler, j *job) {
	g.CheckTimeout(r, g.answerWait)
	e := &exchange{
		guard: g, w: w, r: r, next: next, job: j, life: outlive(r), used: func(int) {},
	}
	defer e.life.end()
	taken := 0
	defer func() { e.used(taken) }()
	kept, err := once.Do(e.life.ctx, g.Keeper, j.name, e.carryOut, g.once(r.Pattern, j)...)
	if e.fresh != nil && (err == nil || errors.Is(err, once.ErrResult)) {
		taken = storedBytes + j.size
	}
	if e.unwind != nil {
		e.unwind()
	}
	e.finish(kept, err)
}

// carryOut runs the handler under the lock, and returns what is to be stored.
//
// A second call means that the lock was lost, and that the request which took over has failed. The
// handler is not run twice: it has had its effect, and has read the body. Its answer is still the
// only one.
func (e *exchange) carryOut(ctx context.Context) (answer, error) {
	if e.fresh == nil {
		if err := e.begin(ctx); err != nil {
			return answer{}, err
		}
	}
	if e.fresh.status == 0 && ctx.Err() != nil {
		return answer{}, fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
	}
	given := e.fresh.answer()
	if !e.fresh.final(e.keepStatus) {
		return given, errNotFinal
	}
	return given, nil
}

// begin runs the handler, unless its caller has filled its quota or its client has gone.
func (e *exchange) begin(ctx context.Context) (err error) {
	if e.used, err = e.stored.reserve(e.job.caller); err != nil {
		return err
	}
	if !e.life.begin(e.finishWithin) {
		return httpguard.Ended(e.r)
	}
	e.fresh = newRecorder(e.w, e.maxAnswer)
	e.runHandler(ctx)
	return nil
}

// runHandler runs the handler. A panic passes through, except when a final answer that is too large
// to be stored has gone out: a client that leaves while it reads has some handlers panic, such as
// httputil.ReverseProxy, and must not have the request carried out again by that. Then unwind goes
// on with it, when the outcome is on record.
func (e *exchange) runHandler(ctx context.Context) {
	over := false
	defer func() {
		if !over && e.fresh.large && e.fresh.final(e.keepStatus) {
			if value := recover(); value != nil {
				e.unwind = func() { panic(value) }
			}
		}
	}()
	httpguard.Serve(httpguard.Recorded(ctx), e.fresh, e.r, e.next.ServeHTTP)
	over = true
}

// finish sends the answer: kept is the one on record if err is nil.
func (e *exchange) finish(kept answer, err error) {
	replay := func(w http.ResponseWriter, _ *http.Request) { kept.replay(w) }
	switch ran := e.fresh != nil; {
	case ran && e.fresh.large: // it has gone out, whatever has become of the lock meanwhile
		e.fresh.send()
	case err == nil && !ran:
		e.instead(replay)
	case !ran && e.r.Context().Err() != nil:
		e.refuse(e.w, e.r, httpguard.Ended(e.r))
	case !ran:
		e.instead(func(w http.ResponseWriter, r *http.Request) { e.refuse(w, r, err) })
	case err == nil && e.fresh.overtaken(kept):
		// The lock was lost, and another request was first: the stored answer counts.
		e.instead(replay)
	case err == nil, errors.Is(err, errNotFinal), errors.Is(err, once.ErrNotRecorded),
		errors.Is(err, once.ErrResult):
		e.fresh.send() // it stands, even if it could not be stored
	case errors.Is(err, renewer.ErrHeld):
		// The lock was lost, and another request has it.
		e.refuse(e.w, e.r, fmt.Errorf("%w: %w", renewer.ErrLost, err))
	default:
		e.refuse(e.w, e.r, err)
	}
}

// instead gives an answer in place of the handler's.
func (e *exchange) instead(answer http.HandlerFunc) {
	e.r.Body = httpguard.Keep(e.job.body, e.r.Body) // the handler may have read it
	e.gate.let(e.w, e.r, answer)
}
