package httpmw

import (
	"context"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/profile"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// work handles a request.
type work func(http.ResponseWriter, *http.Request)

// held is a lock that a request has.
type held struct {
	ctx  context.Context
	exit func(error) error

	keeper    *renewer.Keeper
	set       names.Set
	operation string
}

// under runs do with the lock, and frees it. It returns the loss of the lock, nil if
// there was none. A panic and runtime.Goexit pass through, and the lock is free then.
func (l held) under(w http.ResponseWriter, r *http.Request, do work) (lost error) {
	return unwind.Then(func() error {
		return profile.Do(l.ctx, l.keeper, l.set, l.operation, func(ctx context.Context) error {
			httpguard.Serve(ctx, w, r, do)
			return nil // so that the error is the loss alone
		})
	}, l.exit)
}

// run runs do with the lock, and answers in its place if the lock was lost.
//
// If package idempotent records the answer, the writer is tracked in any case. A
// mark on an answer of the handler's own would keep that from being stored, and
// writers in between may take headers long after they have taken the answer.
func (l held) run(w http.ResponseWriter, r *http.Request, do work, s *settings) {
	if !s.Strict && !httpguard.IsRecorded(r) {
		if lost := l.under(w, r, do); lost != nil {
			answerUnseen(w, r, ErrorOf(lost))
		}
		return
	}
	tracked, wrote := track(w)
	switch lost := l.under(tracked, r, do); {
	case lost == nil:
	case !wrote.Load():
		s.refuse(w, r, lost)
	case s.Strict:
		panic(http.ErrAbortHandler)
	}
}

// answerUnseen makes a 503 of the empty 200 that net/http sends for a handler that has written
// nothing. If the handler has written something, which can't be known here, the writer ignores the
// call. It sends no body, which might come behind the handler's. (To find out what was written by
// an invalid WriteHeader and a recover would leave writers of other middleware in a wrong state.)
func answerUnseen(w http.ResponseWriter, r *http.Request, e *Error) {
	e.setHeaders(w.Header())
	httpguard.MarkRefused(w.Header(), r)
	w.WriteHeader(e.Status)
}
