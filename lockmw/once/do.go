package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Do returns the result of the work called name. It runs fn if no caller has in
// any process, waits if another one is at it, and takes over if that one fails,
// dies or loses the lock. Under the lock on name already it is an error,
// [renewer.ErrConfig].
//
// fn's context is that of [lockmw.Do], and [Current] is the attempt. fn may run
// more than once in one call, never twice at a time: it must be able to follow
// an attempt that did not come to its end.
//
// A call for another type than that of the result, by its package's path and name, gets
// [ErrRecord]: put a version into the name when a type is renamed or moved.
func Do[T any, S ~string](
	ctx context.Context, k *renewer.Keeper, name S, fn func(context.Context) (T, error),
	opts ...Option,
) (result T, err error) {
	set, err := checkedOutside(ctx, "Do", k, string(name), opts)
	if err != nil {
		return result, err
	}
	if fn == nil {
		return result, fmt.Errorf("%w: once.Do needs a function", renewer.ErrConfig)
	}
	forget := func() { var zero T; result = zero }
	c := &call{
		settings: set, keeper: k, name: string(name), typ: tagOf[T](),
		work:   func(ctx context.Context) (err error) { result, err = fn(ctx); return err },
		encode: func() ([]byte, error) { return set.marshal(result) },
		decode: func(data []byte) error { forget(); return set.unmarshal(data, &result) },
		forget: forget,
	}
	err = c.run(ctx)
	return result, err
}

// checked are the settings of a call by who, if they are valid.
func checked(
	who string, k *renewer.Keeper, name string, opts []Option,
) (set settings, err error) {
	if k == nil {
		return set, fmt.Errorf("%w: once.%s needs a keeper (renewer.New)", renewer.ErrConfig, who)
	}
	if set, err = newSettings(k, opts); err != nil {
		return set, err
	}
	return set, cmp.Or(renewer.CheckName(name), set.checkUnder())
}

// checkedOutside is checked for a call that takes the lock.
func checkedOutside(
	ctx context.Context, who string, k *renewer.Keeper, name string, opts []Option,
) (settings, error) {
	if lockmw.FenceOf(ctx, name) != 0 {
		return settings{}, fmt.Errorf("%w: once.%s takes the lock on the name itself: call it "+
			"outside of that lock", renewer.ErrConfig, who)
	}
	return checked(who, k, name, opts)
}

// conclude reads what is on record. It is over if the work is
// decided, or if this program can't read the record.
func (c *call) conclude(seen store.Seen) (rec record, over bool, err error) {
	rec, err = decodeRecord(seen.Data)
	switch {
	case err != nil:
		return rec, true, c.ended(ErrRecord, rec, err)
	case rec.state == "":
		return rec, false, nil
	case rec.input != c.input:
		return rec, true, c.ended(ErrInput, rec, nil)
	}
	kind, cause := ErrRecord, c.cause(rec)
	switch rec.state {
	case done:
		if otherType(rec.details.typ, c.typ) {
			cause = fmt.Errorf("its result is of type %s, and this call's of type %s",
				rec.details.typ, c.typ)
			break
		}
		if err = c.decode([]byte(rec.result)); err == nil {
			return rec, true, nil
		}
		cause = fmt.Errorf("its result can't be decoded: %w", err)
	case bare:
		kind, cause = ErrResult, errors.New(rec.result)
	case exhausted:
		kind = ErrAttemptsExhausted
	case givenUp:
		kind = ErrGivenUp
	default:
		return rec, false, nil
	}
	c.forget()
	return rec, true, c.ended(kind, rec, cause)
}

func (c *call) ended(kind error, rec record, cause error) error {
	return &Error{Kind: kind, Name: c.name, Attempts: rec.attempts, Last: rec.last, Err: cause}
}

// finish is the verdict on an attempt that has succeeded.
func (c *call) finish(end ending) verdict {
	switch {
	case end.written == nil && end.unstored == nil:
		return verdict{over: true}
	case end.written == nil:
		return verdict{over: true, err: c.ended(ErrResult, end.rec, end.unstored)}
	case errors.Is(end.written, renewer.ErrLost), c.uncounted &&
		errors.Is(end.written, store.ErrNoRecord):
		// Another call has taken over. Its result will be everybody's, unless
		// it has come to nothing and erased the record.
		c.forget()
		c.own = end.written
		return verdict{soon: true, err: end.written}
	default:
		return verdict{over: true, err: c.ended(ErrNotRecorded, end.rec, end.written)}
	}
}

// Attempt is one try at the work.
type Attempt struct {
	// Number is which try it is, from 1 on.
	Number int
	// Max is how many there may be.
	Max int
	// Previous made the one before: node and process. Zero on the first.
	Previous store.Holder
}

type attemptKey struct{}

// Current is the innermost attempt that ctx belongs to; zero outside of [Do].
func Current(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}
