package once

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// call is one Do under way.
type call struct {
	settings

	keeper *renewer.Keeper
	name   string
	typ    string                      // of the result: see tagOf
	work   func(context.Context) error // runs the function and keeps its result
	encode func() ([]byte, error)      // encodes that
	decode func([]byte) error          // takes another's result in its place
	forget func()

	until  time.Time // when to wait no longer
	last   known
	own    error      // the error of this call's last attempt, unless that decided the work
	ownIs  int        // the number of that attempt
	paused store.Seen // who wrote the record by which this call has paused already
	why    error      // why the last turn came to nothing before an attempt
}

// known is the record as a call saw it last without the lock: none, before it
// has looked.
type known struct {
	seen store.Seen
	rec  record
}

// verdict is what came of a turn.
type verdict struct {
	over bool
	err  error
	ran  bool // the function did
	idle bool // it could not, since there was no transaction for it
	soon bool // there is no need to pause before the next turn
	// pause is how long to do so; 0: about the first of Retry.
	pause time.Duration
}

// run takes turns until the work is decided, or this call may not wait any
// longer.
func (c *call) run(ctx context.Context) error {
	c.until = time.Now().Add(c.Wait)
	for {
		v := c.turn(ctx)
		if v.over {
			return v.err
		}
		c.why = v.err
		if v.ran {
			c.until, c.why = time.Now().Add(c.Wait), nil
		} else if left := time.Until(c.until); !v.soon && left <= v.pause {
			return c.refused(v.err)
		}
		if v.soon {
			continue
		}
		// so that others take over
		if err := sleep(ctx, cmp.Or(v.pause, c.pause(1))); err != nil {
			return c.refused(err)
		}
	}
}

// turn takes the lock, and does what is to be done under it. Most callers need
// not wait for that: the work is over for good, and the record says so.
func (c *call) turn(ctx context.Context) (v verdict) {
	if v := c.glance(ctx); v.over || v.pause > 0 {
		return v
	}
	lock := names.Of(names.Want{Name: c.name})
	held, err := scope.Run(ctx, c.keeper, lock, c.locking(), func(op context.Context) error {
		v = c.underLock(ctx, op)
		return v.err
	})
	switch {
	case !held:
		return verdict{over: true, err: c.refused(err)}
	case v.ran:
		v.err = err // with the loss of the lock, if it was lost
	}
	return v
}

// locking are the settings of a lock, for which the call waits no longer than
// it may.
func (c *call) locking() option.Settings {
	s := c.Settings
	if s.Wait = time.Until(c.until); s.Wait <= 0 {
		s.Contention = option.Refuses
	}
	return s
}

// glance reads the record without the lock.
func (c *call) glance(ctx context.Context) verdict {
	switch seen, err := c.recorder.Read(ctx, c.name); {
	case err == nil:
		return c.follow(seen)
	case passing(err):
		return verdict{} // to wait for the store is the lock's affair
	default:
		return verdict{over: true, err: c.refused(err)}
	}
}

// follow is the verdict on a record that was read without the lock. Unless it
// decides the work, the next attempt is to follow it.
func (c *call) follow(seen store.Seen) verdict {
	rec, over, err := c.conclude(seen)
	c.last = known{seen, rec}
	if v, early := c.early(seen, rec); !over && early {
		return v
	}
	return verdict{over: over, err: err}
}

// term is that of the next holder. It begins with the next attempt, if there
// may be one.
func (c *call) term() store.Term {
	term := store.Term{Name: c.name, TTL: c.keep}
	term.After.Fence, term.After.Seq = c.last.seen.Fence, c.last.seen.Seq
	if a, rec := c.next(c.last.rec); a.Number <= a.Max {
		rec.details.kept = c.keep
		term.Data = rec.encode()
	}
	return term
}

// underLock begins the next attempt, unless the work is decided. op is the
// lock's context.
func (c *call) underLock(ctx, op context.Context) verdict {
	p := &pen{c: c, fence: lockmw.FenceOf(op, c.name)}
	// An attempt is on record before it begins, so that one that kills its
	// process counts.
	seen, err := p.prepare(op, c.term(), c.until)
	if err != nil {
		return c.unclear(ctx, op, err)
	}
	a, rec := c.next(c.last.rec)
	if seen.Fence != p.fence {
		previous, over, err := c.conclude(seen)
		if over {
			return verdict{over: true, err: err}
		}
		a, rec = c.next(previous)
		if a.Number > a.Max { // the last one died, or lost the lock
			return c.exhaust(ctx, p, previous, nil)
		}
		if v, early := c.early(seen, previous); early {
			return v
		}
		if err := p.write(op, rec, c.until); err != nil {
			return c.unclear(ctx, op, err)
		}
	}
	op = context.WithValue(op, attemptKey{}, a)
	if ctx.Err() != nil { // the caller has left meanwhile
		p.takeBack(ctx, op, rec)
		return verdict{over: true, err: c.refused(ctx.Err())}
	}
	v := c.attemptUnder(ctx, op, p, rec)
	v.ran = !v.idle
	return v
}

// attemptUnder is attempt under the locks that [Under] names. What waits for
// them has no transaction.
func (c *call) attemptUnder(ctx, op context.Context, p *pen, rec record) (v verdict) {
	if c.under == nil {
		return c.attempt(ctx, op, p, rec)
	}
	how := c.locking()
	if c.under.With != nil {
		how = c.under.With(how)
	}
	ran, err := scope.Run(op, c.keeper, c.under.Set, how, func(op context.Context) error {
		v = c.attempt(ctx, op, p, rec)
		return v.err
	})
	if !ran {
		return c.unbegun(ctx, op, p, rec, err)
	}
	v.err = err // with the loss of a lock, if it was lost
	return v
}

// unbegun is the verdict on an attempt that is on record and whose function has
// not run.
func (c *call) unbegun(ctx, op context.Context, p *pen, rec record, err error) verdict {
	p.takeBack(ctx, op, rec)
	v := c.unclear(ctx, op, err)
	v.idle = true
	return v
}

// next is the attempt after the one on record, and its record.
func (c *call) next(previous record) (Attempt, record) {
	a := Attempt{Number: previous.attempts + 1, Max: c.attempts, Previous: previous.last}
	return a, record{
		state: begun, attempts: a.Number, input: c.input,
		last: store.Holder{Node: line(c.keeper.Config().Node, maxNode), PID: os.Getpid()},
	}
}

// attempt runs the function.
func (c *call) attempt(ctx, op context.Context, p *pen, rec record) (v verdict) {
	var err error
	begun, told := time.Now(), unwind.Err // by a panic or runtime.Goexit, which are failures too
	ran, failed := true, true             // unless it has not begun, or is decided
	defer func() {
		if ran {
			c.observe(op, begun, rec.attempts, told)
		}
		if failed {
			v.pause = c.failed(op, p, rec, err)
		}
	}()
	end, err := c.perform(op, p, rec)
	told = err
	switch {
	case end.unbegun != nil:
		ran, failed = false, false
		return c.unbegun(ctx, op, p, rec, end.unbegun)
	case err == nil:
		failed = false
		return c.finish(end)
	case isPermanent(err):
		decided := rec
		decided.state, decided.result = givenUp, c.told(err)
		// If the lock was lost, another attempt is under way, which may do
		// better.
		if written := p.mark(op, decided); !errors.Is(written, renewer.ErrLost) {
			failed = false
			return verdict{over: true, err: c.ended(ErrGivenUp, rec, err)}
		}
	case rec.attempts >= c.attempts:
		if v := c.exhaust(ctx, p, rec, err); v.over {
			failed = false
			return v
		}
	}
	c.own, c.ownIs = err, rec.attempts
	return verdict{
		over: c.noRetry || ctx.Err() != nil,
		err:  err,
		soon: errors.Is(context.Cause(op), renewer.ErrLost), // which is not the work's fault
	}
}

// observe tells the keeper's observer of an attempt that has run.
func (c *call) observe(op context.Context, begun time.Time, attempt int, err error) {
	run := renewer.Run{
		Job: c.Operation, Outcome: renewer.OutcomeRan, Err: err, Attempt: attempt,
		Took: time.Since(begun),
	}
	if err == nil {
		run.LastSuccess = time.Now()
	}
	c.keeper.Observer().Ran(op, run)
}

// exhaust records that no caller is to try any more, unless another one is
// trying. A failure to record it does no harm: the next caller finds out.
// cause is the error of the last attempt, if that was this call's.
func (c *call) exhaust(ctx context.Context, p *pen, rec record, cause error) verdict {
	rec.state, rec.details = exhausted, details{}
	if cause != nil {
		rec.result = c.told(cause)
	}
	err := p.write(ctx, rec, time.Time{})
	if errors.Is(err, renewer.ErrLost) {
		return verdict{err: err}
	}
	if cause == nil {
		cause = c.cause(rec)
	}
	return verdict{over: true, err: c.ended(ErrAttemptsExhausted, rec, cause)}
}

// unclear is the verdict on a turn in which the function has not run,
// since the record could not be read or written.
func (c *call) unclear(ctx, op context.Context, err error) verdict {
	lost := op.Err() != nil && ctx.Err() == nil
	if lost && errors.Is(err, op.Err()) { // which the caller must not take for its own
		err = context.Cause(op)
	}
	again := lost || errors.Is(err, renewer.ErrLost) || errors.Is(err, store.ErrNoRecord)
	switch {
	case again && ctx.Err() == nil:
		return verdict{err: err}
	case again: // but the caller has left
		if c.why == nil {
			c.why = err
		}
		err = ctx.Err()
	}
	return verdict{over: true, err: c.refused(err)}
}

// refused is the caller's error if the call ends before the work is decided.
func (c *call) refused(err error) error {
	for _, why := range []error{c.why, c.own} {
		if why != nil && !errors.Is(err, why) {
			err = errors.Join(err, why)
		}
	}
	return err
}
