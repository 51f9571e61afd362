package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// call is one Do under way.
type call struct {
	settings

	keeper *renewer.Keeper
	name   string
	work   func(context.Context) error // runs the function and keeps its result
	encode func() ([]byte, error)      // encodes that
	decode func([]byte) error          // takes another's result in its place
	forget func()

	until time.Time // when to wait no longer
	last  glanced
	own   error // the error of this call's last attempt, unless that decided the work
}

// glanced is the record as it was before the call asked for the lock.
type glanced struct {
	seen  renewer.Seen
	rec   record
	known bool
}

// verdict is what came of a turn.
type verdict struct {
	over bool
	err  error
	ran  bool // the function did
	idle bool // it could not, since there was no transaction for it
	soon bool // there is no need to pause before the next turn
}

// run takes turns until the work is decided, or this call may not wait any longer.
func (c *call) run(ctx context.Context) error {
	c.until = time.Now().Add(c.wait)
	for {
		if over, err := c.glance(ctx); over {
			return err
		}
		v := c.turn(ctx)
		switch {
		case v.over:
			return v.err
		case v.ran:
			c.until = time.Now().Add(c.wait)
		case time.Until(c.until) <= 0:
			return c.refused(v.err)
		}
		if v.soon {
			continue
		}
		if err := c.pause(ctx); err != nil {
			return c.refused(err)
		}
	}
}

// glance looks at the record without the lock, for which most callers
// need not wait: the work is over for good, or another caller is at it.
func (c *call) glance(ctx context.Context) (over bool, err error) {
	c.last = glanced{}
	seen, err := c.recorder.Read(ctx, c.name)
	switch {
	case err == nil:
		rec, over, err := c.conclude(seen)
		c.last = glanced{seen: seen, rec: rec, known: true}
		return over, err
	case passing(err):
		// the holder of the lock will see; to wait for the store is the lock's affair
		return false, nil
	default:
		return true, c.refused(err)
	}
}

// turn takes the lock, and does what is to be done under it.
func (c *call) turn(ctx context.Context) (v verdict) {
	held, err := lockmw.Run(ctx, c.keeper, c.name, func(op context.Context) error {
		v = c.underLock(ctx, op)
		return v.err
	}, c.lock(c.until)...)
	switch {
	case !held:
		return verdict{over: true, err: c.refused(err)}
	case v.ran:
		v.err = err // with the loss of the lock, if it was lost
	}
	return v
}

// underLock begins the next attempt, unless the work is decided. op is the lock's context.
func (c *call) underLock(ctx, op context.Context) verdict {
	p := &pen{c: c, fence: lockmw.FenceOf(op, c.name)}
	// An attempt is on record before it begins, so that one that kills its process counts. If
	// nothing has changed since the glance, one question is enough for that.
	var seen renewer.Seen
	var err error
	a, rec := c.next(c.last.rec)
	if c.last.known && a.Number <= a.Max {
		seen, err = p.beginAfter(op, c.last.seen, rec, c.until)
	} else {
		seen, err = p.look(op, c.until)
	}
	if err != nil {
		return c.unclear(ctx, op, err)
	}
	if seen.Fence != p.fence {
		previous, over, err := c.conclude(seen)
		if over {
			return verdict{over: true, err: err}
		}
		a, rec = c.next(previous)
		if a.Number > a.Max { // the last one died, or lost the lock
			return c.exhaust(ctx, p, previous, nil)
		}
		if err := p.write(op, rec, c.until); err != nil {
			return c.unclear(ctx, op, err)
		}
	}
	v := c.attempt(ctx, context.WithValue(op, attemptKey{}, a), p, rec)
	v.ran = !v.idle
	return v
}

// next is the attempt after the one on record, and its record.
func (c *call) next(previous record) (Attempt, record) {
	a := Attempt{Number: previous.attempts + 1, Max: c.attempts, Previous: previous.last}
	return a, record{
		state: begun, attempts: a.Number, input: c.input,
		last: renewer.Holder{Node: line(c.keeper.Config().Node), PID: os.Getpid()},
	}
}

// attempt runs the function.
func (c *call) attempt(ctx, op context.Context, p *pen, rec record) verdict {
	failed := c.uncounted // unless it is decided
	defer func() {        // so that a panic and runtime.Goexit leave nothing either
		if failed {
			p.erase(op)
		}
	}()
	end, err := c.perform(op, p, rec)
	switch {
	case end.unbegun != nil:
		failed = false
		p.takeBack(ctx, op, rec)
		v := c.unclear(ctx, op, end.unbegun)
		v.idle = true
		return v
	case err == nil:
		failed = false
		return c.finish(end)
	case isPermanent(err):
		failed = false
		rec.state = givenUp
		// If the lock was lost, another attempt is under way, which may do better.
		if written := p.mark(op, rec); !errors.Is(written, renewer.ErrLost) {
			return verdict{over: true, err: c.ended(ErrGivenUp, rec, err)}
		}
	case rec.attempts >= c.attempts:
		if v := c.exhaust(ctx, p, rec, err); v.over {
			return v
		}
	}
	c.own = err
	return verdict{
		over: c.noRetry || ctx.Err() != nil,
		err:  err,
		soon: errors.Is(context.Cause(op), renewer.ErrLost), // which is not the work's fault
	}
}

// exhaust records that no caller is to try any more, unless another one is
// trying. A failure to record it does no harm: the next caller finds out.
func (c *call) exhaust(ctx context.Context, p *pen, rec record, cause error) verdict {
	rec.state = exhausted
	err := p.write(context.WithoutCancel(ctx), rec, time.Time{})
	if errors.Is(err, renewer.ErrLost) {
		return verdict{err: err}
	}
	if cause == nil {
		cause = c.own
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
	again := lost || errors.Is(err, renewer.ErrLost) || errors.Is(err, renewer.ErrNoRecord)
	return verdict{over: ctx.Err() != nil || !again, err: c.refused(err)}
}

// refused is the caller's error if the call ends before the work is decided.
func (c *call) refused(err error) error {
	if c.own == nil || errors.Is(err, c.own) {
		return err
	}
	return errors.Join(err, c.own)
}

// pause lets others take over.
func (c *call) pause(ctx context.Context) error {
	timer := time.NewTimer(c.retryIn/2 + rand.N(c.retryIn))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
