package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// errPast is why an operation must stop whose context has not heard of it
// yet: the process was paused, and the engine is about to look at its clock.
var errPast = fmt.Errorf("%w: by the clock, its time is over", renewer.ErrLost)

// hold is the lock of one call. Its methods may be called concurrently.
type hold struct {
	ctx    context.Context // the operation's
	strict bool
	exit   func(error) error

	once sync.Once
	over atomic.Bool // the call has ended, though the lock may not be free yet
	loss error       // why the lock was lost, known after the end
	cut  atomic.Pointer[callError]
}

// end frees the lock, once, and returns its loss, nil if it was not
// lost. Later calls wait for the first.
func (h *hold) end() error {
	h.once.Do(func() {
		h.over.Store(true)
		h.loss = h.exit(nil)
	})
	return h.loss
}

// abort is end for a call that panics.
func (h *hold) abort() {
	h.once.Do(func() {
		h.over.Store(true)
		_ = h.exit(unwind.Err) // a loss is not reported: the call does not return
	})
}

// settle ends a call whose own error is err, [unwind.Err] if it did not return. What it returns
// takes the place of err; nil if that stands.
func (h *hold) settle(err error) *callError {
	if errors.Is(err, unwind.Err) {
		h.abort()
		return nil
	}
	loss, cut := h.end(), h.cut.Load()
	if cut == nil {
		return settled(loss, lossIn(h.ctx), err, h.strict)
	}
	// Messages were held back: whatever the handler made of that, its work is not whole.
	return lostError(cmp.Or(loss, cut.causes[0]), err)
}

// settled is what takes the place of own, a call's own error, if the call was under a lost lock;
// nil if own stands. loss is the loss of the call's lock, outer one by which its context had ended.
func settled(loss, outer, own error, strict bool) *callError {
	switch {
	case own != nil && cmp.Or(loss, outer) != nil:
		return lostError(cmp.Or(loss, outer), own)
	case loss != nil && strict:
		return lostError(loss, nil)
	default:
		return nil
	}
}

// failure is the error for what a stream wants to do though the lock is lost; nil
// if it is not. It is right on the first instruction after a pause of the process.
func (h *hold) failure() *callError {
	valid := lockmw.Remaining(h.ctx) > 0
	switch {
	case valid && h.ctx.Err() == nil:
		return nil
	case h.over.Load(): // looked at after the lock's validity, which ends later
		if loss := h.end(); loss != nil {
			return lostError(loss, nil)
		}
		return nil
	}
	loss := lossIn(h.ctx)
	if loss == nil && !valid {
		loss = errPast
	}
	if loss == nil { // the caller has gone
		return nil
	}
	h.cut.CompareAndSwap(nil, lostError(loss, nil))
	return h.cut.Load()
}

// lossIn is the loss that a context has ended by, nil if it has not ended or by something else.
func lossIn(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, renewer.ErrLost) {
		return cause
	}
	return nil
}
