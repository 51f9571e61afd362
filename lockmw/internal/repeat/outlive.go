package repeat

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/ended"
)

// outliving is the context that a request is carried out on. It ends with the
// request until begin, and outlives the request after that: a client that gives
// up and sends its request again must find the first one done, and not cut off
// half-way. The request's values stay, and until begin its deadline, by which a
// lock must be had.
type outliving struct {
	context.Context

	request context.Context
	begun   atomic.Bool
	cancel  context.CancelCauseFunc
	unwatch func() bool // stops watching the request's context
}

// Deadline is that of the request until the handler begins, and then none.
func (o *outliving) Deadline() (deadline time.Time, ok bool) {
	if o.begun.Load() {
		return time.Time{}, false
	}
	return o.request.Deadline()
}

func outlive(request context.Context) *outliving {
	o := &outliving{request: request}
	o.Context, o.cancel = context.WithCancelCause(context.WithoutCancel(request))
	o.unwatch = context.AfterFunc(request, func() { o.cancel(context.Cause(request)) })
	return o
}

// begin has the context outlive the request by d at most, from now on. It
// reports whether the request was still there.
//
// Under the lock of a call further out the context goes on ending with the
// request: the request's context tells of the loss of that lock, and it can't
// end twice.
func (o *outliving) begin(d time.Duration) bool {
	if lockmw.Remaining(o.request) > 0 {
		return o.request.Err() == nil
	}
	if !o.unwatch() {
		return false
	}
	o.begun.Store(true)
	o.unwatch = context.AfterFunc(o.request, func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			o.cancel(fmt.Errorf("lockbeat: the handler was still running %v later "+
				"(FinishWithin): %w", d, ended.Error(o.request)))
		case <-o.Done():
		}
	})
	return true
}

// end frees what the context needs.
func (o *outliving) end() {
	o.unwatch()
	o.cancel(nil)
}
