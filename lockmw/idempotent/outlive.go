package idempotent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// outliving is the context that a request is carried out on. It ends with the request until begin,
// and outlives the request after that: a client that gives up and sends its request again must find
// the first one done, and not cut off half-way. The request's values stay.
type outliving struct {
	request *http.Request
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool // stops watching the request's context
}

func outlive(r *http.Request) *outliving {
	o := &outliving{request: r}
	o.ctx, o.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	o.unwatch = context.AfterFunc(r.Context(), func() { o.cancel(context.Cause(r.Context())) })
	return o
}

// begin has the context outlive the request by d at most, from now on. It reports whether the
// request was still there.
//
// Under the lock of a call further out the context goes on ending with the request: the request's
// context tells of the loss of that lock, and it can't end twice.
func (o *outliving) begin(d time.Duration) bool {
	if lockmw.Remaining(o.request.Context()) > 0 {
		return o.request.Context().Err() == nil
	}
	if !o.unwatch() {
		return false
	}
	o.unwatch = context.AfterFunc(o.request.Context(), func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			o.cancel(fmt.Errorf("lockbeat: the handler was still running %v later "+
				"(idempotent.FinishWithin): %w", d, httpguard.Ended(o.request)))
		case <-o.ctx.Done():
		}
	})
	return true
}

// end frees what the context needs.
func (o *outliving) end() {
	o.unwatch()
	o.cancel(nil)
}
