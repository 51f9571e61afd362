// Package repeat carries out once what clients send more than once, whatever
// the protocol. It is what package idempotent and grpcmw.Idempotent share:
// which request is which, the lock and the record of package once, the work
// that outlives its client, stored answers and what they may take. The adapters
// know how a request is read, how its handler is run, and how an answer is
// written.
package repeat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/ended"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// Guard carries requests out. It may be used concurrently.
type Guard struct {
	Settings

	keeper *renewer.Keeper
	quotas *quotas
}

// New returns a guard. The error is renewer.ErrConfig, for settings that can't
// be meant and for a keeper whose store keeps no records.
func New(k *renewer.Keeper, set Settings) (*Guard, error) {
	g := &Guard{Settings: set, keeper: k}
	if err := g.checkSettings(); err != nil {
		return nil, err
	}
	g.quotas = newQuotas(set)
	return g, nil
}

// Work is how an adapter carries a request out.
type Work struct {
	// Operation is the static name of the work.
	Operation string
	// Under is the lock that the handler runs under, too: see [Guard.Under].
	// nil: none.
	Under once.Option
	// Run runs the handler. It is called once at most. A panic passes through.
	Run func(ctx context.Context) Answer
	// Read takes the stored answer. The error is for one that can't be read.
	Read func(stored []byte) error
}

// Answer is what a handler has answered.
type Answer struct {
	// None means that the handler has not answered, since its context had
	// ended.
	None bool
	// Final means that requests with the same key get this answer. Another one
	// leaves no record.
	Final bool
	// Data is a final answer, encoded. nil means that it is too large to be
	// stored, or can't be encoded.
	Data []byte
}

// Outcome is which answer a request gets.
type Outcome uint8

const (
	// OutcomeOwn is that of its own handler, even if it is not on record.
	OutcomeOwn Outcome = iota
	// OutcomeStored is the one that Work.Read was given last.
	OutcomeStored
	// OutcomeRefused is none. The error says why.
	OutcomeRefused
)

var (
	// ErrUnanswered means that the handler has returned without an answer after
	// its context had ended.
	ErrUnanswered = errors.New("lockbeat: the handler has not answered")
	// ErrLock marks the error of a lock that the handler needs, and not that of
	// its key.
	ErrLock = errors.New("lockbeat: the lock that the request needs was not to be had")

	errNotFinal   = errors.New("lockbeat: the answer is not final")
	errRolledBack = fmt.Errorf("%w: the handler's transaction was rolled back, and the request "+
		"that took over came to nothing", renewer.ErrLost)
)

// attempt is one request under way.
type attempt struct {
	*Guard

	request *Request
	work    Work
	life    *outliving

	ran   bool             // the handler, here
	given Answer           // by the handler
	leave func(stored int) // gives the quotas back, once the request counts for them
}

// Do has a request carried out, unless it was before or another process is at
// it, and says which answer it gets. The error is not nil if and only if that
// is none. ctx is the request's; the handler's outlives it.
func (g *Guard) Do(ctx context.Context, r *Request, w Work) (Outcome, error) {
	a := &attempt{Guard: g, request: r, work: w, life: outlive(ctx), leave: func(int) {}}
	defer a.life.end()
	stored := 0
	defer func() { a.leave(stored) }()
	kept, err := once.Do(a.life, g.keeper, r.name, a.carryOut, g.options(ctx, r, w)...)
	if err == nil || errors.Is(err, once.ErrResult) {
		stored = storedBytes + r.size
	}
	return a.outcome(ctx, kept, err)
}

// carryOut runs the handler under the lock, and returns what is to be stored.
//
// A second call means that the lock was lost, and that the request which took
// over has failed. The handler is not run twice: it has had its effect, and has
// read the request. Its answer is still the only one. But if its effect was
// rolled back, the answer is not true: the client has to come again.
func (a *attempt) carryOut(ctx context.Context) ([]byte, error) {
	switch {
	case !a.ran:
		if err := a.begin(ctx); err != nil {
			return nil, err
		}
	case a.Transactional():
		return nil, errRolledBack
	}
	switch {
	case a.given.None:
		return nil, fmt.Errorf("%w: %w", ErrUnanswered, context.Cause(ctx))
	case !a.given.Final:
		return nil, errNotFinal
	case a.Transactional() && !a.fits(a.given.Data):
		return nil, fmt.Errorf("%w: %w: it can't be stored, and so the transaction was rolled back",
			renewer.ErrConfig, ErrLarge)
	default:
		return a.given.Data, nil
	}
}

// begin runs the handler, unless its caller has used up a quota or its client
// has gone.
func (a *attempt) begin(ctx context.Context) error {
	leave, err := a.quotas.enter(a.request.caller)
	if err != nil {
		return err
	}
	a.leave = leave
	if !a.life.begin(a.FinishWithin) {
		return ended.Error(a.life.request)
	}
	a.ran = true
	a.given = a.work.Run(ctx)
	return nil
}

// fits reports whether an answer can be stored.
func (a *attempt) fits(data []byte) bool {
	return data != nil && len(a.Seal.Seal(data, a.request.bound())) <= a.MaxAnswer
}

// outcome says which answer the request gets: kept is the one on record if err
// is nil.
func (a *attempt) outcome(ctx context.Context, kept []byte, err error) (Outcome, error) {
	switch {
	case err == nil && a.ran && bytes.Equal(kept, a.given.Data):
		return OutcomeOwn, nil
	case err == nil: // if the handler has run, the lock was lost, and another request was first
		return OutcomeStored, nil
	case !a.ran && ctx.Err() != nil:
		return OutcomeRefused, ended.Error(ctx)
	case !a.ran:
		return OutcomeRefused, a.ofLock(err)
	case errors.Is(err, errNotFinal):
		return OutcomeOwn, nil
	case errors.Is(err, once.ErrResult) && !a.Transactional():
		return OutcomeOwn, nil // it stands, and its record says that it was too large to be stored
	case errors.Is(err, once.ErrNotRecorded) && !a.Transactional():
		a.tellUnrecorded(err)
		return OutcomeOwn, nil // it stands
	case errors.Is(err, renewer.ErrBusy): // the lock was lost, and another request has it
		return OutcomeRefused, fmt.Errorf("%w: %w", renewer.ErrLost, err)
	default:
		return OutcomeRefused, err
	}
}

// ofLock marks err if it is about the lock of the work.
func (a *attempt) ofLock(err error) error {
	if e, ok := errors.AsType[*renewer.Error](err); ok && e.Name != a.request.name {
		return fmt.Errorf("%w: %w", ErrLock, err)
	}
	return err
}

// tellUnrecorded tells the keeper's observer of an answer that may not be on
// record. The next request with the key may run its handler again, and no other
// caller can know.
func (a *attempt) tellUnrecorded(err error) {
	a.keeper.Observer().Fault(renewer.Fault{
		Doing: "record an answer", Name: a.request.name,
		Err: fmt.Errorf("lockbeat: the handler of %q has answered, and its answer is not on "+
			"record: if the request is sent again, it is carried out again: %w",
			a.work.Operation, err),
	})
}

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

// The files, in the order in which to read them:
//
//	do.go        a request is carried out, or gets its stored answer; when the client has gone
//	record.go    what package once is told; answers, encrypted
//	key.go       the Idempotency-Key, and which request it is
//	settings.go  what users set, and what each caller may have
