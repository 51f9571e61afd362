package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var (
	// ErrFree means that no owner has the lock or slot.
	ErrFree = errors.New("inspect: no owner has it")
	// ErrStale means that another lease is current than the one that was to be
	// broken.
	ErrStale = errors.New("inspect: another lease is current")
)

// List reads all locks and limits that are not free, or that tasks wait for,
// and whose names want chooses (nil: all), in no order, with how many wait for
// them. One over whose key another program has written is Foreign, and has no
// slot. It ends behind the first error. What is granted or freed meanwhile may
// be missing. It can be read once.
//
// An error is renewer.ErrUnavailable if the store did not answer, with
// renewer.ErrRejected if it refused; renewer.ErrConfig if locks can't be
// inspected.
func List(ctx context.Context, locks renewer.Store, want Filter) iter.Seq2[store.Lock, error] {
	s, err := inspector(locks)
	if err != nil {
		return func(yield func(store.Lock, error) bool) { yield(store.Lock{}, err) }
	}
	all := s.List(ctx, func(name string, limit bool) bool {
		return renewer.CheckName(name) == nil && (want == nil || want(name, limit))
	})
	return func(yield func(store.Lock, error) bool) {
		for lock, err := range all {
			if !yield(lock, unavailable(ctx, err)) {
				return
			}
		}
	}
}

// Show reads a lock, or a limit, with those who wait for it. One that is free
// has no slots. Errors are as for [List], and renewer.ErrName.
func Show(
	ctx context.Context, locks renewer.Store, name string, limit bool,
) (store.Lock, error) {
	s, err := inspector(locks)
	if err == nil {
		err = renewer.CheckName(name)
	}
	if err != nil {
		return store.Lock{}, err
	}
	lock, err := s.Show(ctx, name, limit)
	return lock, unavailable(ctx, err)
}

// Order is what [Break] is to end.
type Order struct {
	// Name is that of a lock, or with Limit of a limit.
	Name  string
	Limit bool
	// Fence is the fencing token of the lease, as Show tells: no other lease is
	// broken.
	Fence int64
	// By is who orders it, and Why is why, for the holder's error and the logs.
	// Both are needed; 64 bytes of each are kept.
	By, Why string
	// Force frees it at once, and does not wait until the holder's operation
	// has returned, which may not heed its context: two may run side by side.
	Force bool
}

// Break ends a lease before its holder does. The context of its operation ends
// with a renewer.LostError of renewer.ReasonBroken, at once or when the lease
// is a second old, and it is free when the operation has returned, at the end
// of its TTL at the latest. One that HoldAtLeast keeps for an operation that
// has returned stays held, unless by Force.
//
// The error is [ErrFree], [ErrStale], or as for [Show]; nil if it is broken
// already.
func Break(ctx context.Context, locks renewer.Store, o Order) error {
	s, err := inspector(locks)
	o.By, o.Why = strings.TrimFunc(o.By, blank), strings.TrimFunc(o.Why, blank)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return err
	}
	answer := s.Break(ctx, store.Breaking{
		Name: o.Name, Limit: o.Limit, Fence: o.Fence,
		Broken: store.Broken{By: o.By, Why: o.Why, Force: o.Force},
	})
	switch {
	case answer.Status == store.StatusHeld:
		return nil
	case answer.Status == store.StatusGone:
		return ErrFree
	case answer.Status == store.StatusTaken && answer.Foreign:
		return fmt.Errorf("%w: another program has written over its key: delete that", ErrStale)
	case answer.Status == store.StatusTaken && answer.Holder != nil:
		return fmt.Errorf("%w: %s has it: show it again", ErrStale, answer.Holder)
	case answer.Status == store.StatusTaken:
		return fmt.Errorf("%w: show it again", ErrStale)
	default:
		return unavailable(ctx, answer.Err)
	}
}

func (o Order) check() error {
	var faults []error
	fault := func(text string) { faults = append(faults, errors.New(text)) }
	if o.Fence <= 0 {
		fault("Order.Fence: is not positive: take it from Show, where it is 0 until the holder's " +
			"first heartbeat")
	}
	if o.By == "" {
		fault("Order.By: is empty: say who you are, for the holder's log")
	}
	if o.Why == "" {
		fault("Order.Why: is empty: say why, for the holder's log")
	}
	if len(faults) > 0 {
		faults = []error{fmt.Errorf("%w: %w", renewer.ErrConfig, errors.Join(faults...))}
	}
	return errors.Join(append(faults, renewer.CheckName(o.Name))...)
}

// blank reports whether r says nothing: stores drop what can't be printed.
func blank(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError || r == ' ' }

// inspector returns what locks can show.
func inspector(locks renewer.Store) (store.Inspector, error) {
	if s, ok := locks.Engine().(store.Inspector); ok {
		return s, nil
	}
	return nil, fmt.Errorf("%w: a %T can't be inspected; of a quorum, inspect the store of each "+
		"node", renewer.ErrConfig, locks)
}

// unavailable says that a store could not be asked, unless its caller has left.
func unavailable(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, renewer.ErrUnavailable) ||
		errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", renewer.ErrUnavailable, err)
}

// Filter chooses among locks and limits by name; limit is true of a limit. It
// must not block.
type Filter = func(name string, limit bool) bool

// Match chooses names by a pattern, in which * stands for any text and ? for
// one byte.
func Match(pattern string) Filter {
	return func(name string, _ bool) bool { return matches(pattern, name) }
}

// Hash chooses the names that logs and spans show as hash. secret is that of
// renewer.HashNames and tracing.WithKeySecret; nil for none.
func Hash(hash string, secret []byte) Filter {
	return func(name string, _ bool) bool { return renewer.HashName(name, secret) == hash }
}

// matches goes back to the last * on a mismatch, which takes one byte more
// then. So it takes len(pattern) times len(name) steps at most.
func matches(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
