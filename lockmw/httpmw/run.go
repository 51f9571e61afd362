package httpmw

import (
	"context"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

type work func(http.ResponseWriter, *http.Request)

// held is a lock that a request has.
type held struct {
	ctx  context.Context
	exit func(error) error
}

// under runs do with the lock and returns how that was lost, nil if it was not.
// The lock is free then, also after a panic or runtime.Goexit, which pass through.
func (l held) under(w http.ResponseWriter, r *http.Request, do work) (lost error) {
	unwound := lockmw.ErrUnwound
	defer func() { lost = l.exit(unwound) }()
	httpguard.Serve(l.ctx, w, r, do)
	unwound = nil
	return nil
}

// run runs do with the lock, and answers for it if the lock was lost. Inside of Idempotent the
// writer is tracked in any case: a mark on an answer that is the handler's own would keep it from
// being stored, and writers in between may take headers long after they have taken the answer.
func (l held) run(
	w http.ResponseWriter, r *http.Request, do work, s *settings,
) {
	if !s.tracks() && !httpguard.IsRecorded(r) {
		if lost := l.under(w, r, do); lost != nil {
			answerUnseen(w, r, s.explain(lost))
		}
		return
	}
	tracked, wrote := track(w)
	switch lost := l.under(tracked, r, do); {
	case lost == nil:
	case !wrote.Load():
		s.refuse(w, r, lost)
	case s.abortLost:
		panic(http.ErrAbortHandler)
	}
}

// answerUnseen makes a 503 of the empty 200 that a handler gets which has written nothing.
// Whether it has, nobody knows: if so, the writer ignores this. To find out by a WriteHeader
// that the writer refuses, and a recover, would put writers of other middleware in a wrong
// state; and a body can't be sent, since it might land behind that of the handler.
func answerUnseen(w http.ResponseWriter, r *http.Request, e *Error) {
	e.setHeaders(w.Header())
	httpguard.MarkRefused(w.Header(), r)
	w.WriteHeader(e.Status)
}
