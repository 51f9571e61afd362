package idempotent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// outliving is a context that ends with its request until the request is being carried out, and
// outlives it from then on: a client that gives up and comes again must find its first request
// done, and not cut off half-way. The request's values stay.
type outliving struct {
	request *http.Request
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool // the request's context
}

func outlive(r *http.Request) *outliving {
	o := &outliving{request: r}
	o.ctx, o.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	o.unwatch = context.AfterFunc(r.Context(), func() { o.cancel(context.Cause(r.Context())) })
	return o
}

// begin has the context outlive the request from now on, by d at most, and reports whether the
// request was still there.
//
// Under another lock it goes on ending with the request: that lock's loss is told by the request's
// context, which can't end twice.
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
			o.cancel(fmt.Errorf("lockbeat: the handler was still at it %v later "+
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
