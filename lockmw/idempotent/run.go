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

// errUnanswered means that a handler has returned without a word after its context had ended.
var errUnanswered = errors.New("lockbeat: the handler has not answered")

// answer answers a request, by its handler or with what is stored.
func (g *guard) answer(w http.ResponseWriter, r *http.Request, next http.Handler, j *job) {
	var fresh *recorder // of the handler's run, if it ran here
	var unwind func()   // goes on with its panic
	g.CheckTimeout(r, g.answerWait)
	run := outlive(r)
	defer run.end()
	used := func(int) {} // counts what the answer takes in the store
	taken := 0
	defer func() { used(taken) }()
	kept, err := once.Do(run.ctx, g.Keeper, j.name, func(ctx context.Context) (answer, error) {
		if fresh == nil {
			var err error
			if used, err = g.stored.reserve(j.caller); err != nil {
				return answer{}, err
			}
			if !run.begin(g.finishWithin) {
				return answer{}, httpguard.Ended(r)
			}
			fresh = newRecorder(w, g.maxAnswer)
			unwind = g.carryOut(ctx, fresh, r, next)
		}
		// A second call means that the lock was lost, and that the request which took over has
		// failed. The handler is not run twice: it has had its effect, and has read the body. Its
		// answer is still the only one.
		if fresh.status == 0 && ctx.Err() != nil {
			return answer{}, fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
		}
		a := fresh.answer()
		if !fresh.final(g.keepStatus) {
			return a, errNotFinal
		}
		return a, nil
	}, g.once(r.Pattern, j)...)
	if fresh != nil && (err == nil || errors.Is(err, once.ErrResult)) {
		taken = storedBytes + j.size
	}
	if unwind != nil {
		unwind()
	}
	switch {
	case fresh != nil && fresh.large: // it has gone out, whatever has become of the lock meanwhile
		fresh.send()
	case err == nil && fresh == nil:
		g.instead(w, r, j, func(w http.ResponseWriter, _ *http.Request) { kept.replay(w) })
	case fresh == nil && r.Context().Err() != nil:
		g.refuse(w, r, httpguard.Ended(r))
	case err == nil, errors.Is(err, errNotFinal), errors.Is(err, once.ErrNotRecorded),
		fresh != nil && errors.Is(err, once.ErrResult):
		// What the handler has answered stands, also if it could not be stored. After a loss it may
		// have been somebody else who was first; then the stored answer is the one that counts.
		if err == nil && fresh.overtaken(kept) {
			g.instead(w, r, j, func(w http.ResponseWriter, _ *http.Request) { kept.replay(w) })
			return
		}
		fresh.send()
	case fresh != nil && errors.Is(err, renewer.ErrHeld):
		// its own attempt failed, and another is at it
		g.refuse(w, r, fmt.Errorf("%w: %w", renewer.ErrLost, err))
	case fresh != nil:
		g.refuse(w, r, err)
	default:
		g.instead(w, r, j, func(w http.ResponseWriter, r *http.Request) { g.refuse(w, r, err) })
	}
}

// carryOut runs the handler. A panic passes through, except when a final answer that is too large
// to be stored has gone out: a client that leaves while it reads has some handlers panic, such as
// httputil.ReverseProxy, and must not have the request carried out again by that. What is
// returned then goes on with it.
func (g *guard) carryOut(
	ctx context.Context, fresh *recorder, r *http.Request, next http.Handler,
) (unwind func()) {
	over := false
	defer func() {
		if !over && fresh.large && fresh.final(g.keepStatus) {
			if value := recover(); value != nil {
				unwind = func() { panic(value) }
			}
		}
	}()
	httpguard.Serve(httpguard.Recorded(ctx), fresh, r, next.ServeHTTP)
	over = true
	return nil
}

// instead gives an answer in place of the handler's.
func (g *guard) instead(
	w http.ResponseWriter, r *http.Request, j *job, answer http.HandlerFunc,
) {
	r.Body = httpguard.Keep(j.body, r.Body) // the handler may have read it
	g.gate.let(w, r, answer)
}
