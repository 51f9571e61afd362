package script

import (
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Op is one of a store's operations.
type Op string

// The operations that a script can answer.
const (
	Acquire Op = "acquire"
	Renew   Op = "renew"
	Release Op = "release"
	Prepare Op = "prepare"
	Read    Op = "read"
	Write   Op = "write"
)

// Step says how one call is answered. Make one with [Pass], [Held], [Taken],
// [Overwritten], [Gone], [Fail], [Hang] or [Each], and change it with its
// methods, each of which returns a changed copy. The zero value is Pass.
type Step struct {
	answer  answer
	each    []answer
	slow    time.Duration
	late    time.Duration
	noReply bool
}

// answer is what one item of a call gets.
type answer struct {
	fixed bool // otherwise the store in memory answers
	grant store.Grant
	lose  error // given instead of the answer, which has taken effect all the same
}

// Pass answers as a store in memory would.
func Pass() Step { return Step{} }

// Held answers every item with StatusHeld. Grants get rising fencing
// tokens, from the same counter as those of Pass.
func Held() Step { return fixed(store.Grant{Status: store.StatusHeld}) }

// Granted answers every item with StatusHeld, and with fence where that
// matters.
func Granted(fence int64) Step {
	return fixed(store.Grant{Status: store.StatusHeld, Fence: fence})
}

// Taken answers every item with StatusTaken: holder has it, for ttl more
// unless it renews. Both may be zero, for unknown.
func Taken(holder store.Holder, ttl time.Duration) Step {
	return fixed(store.Grant{Status: store.StatusTaken, Holder: holder, TTL: ttl})
}

// foreigner stands for a program that is no owner, and writes over names all
// the same.
var foreigner = store.Holder{Node: "another program"}

// Overwritten answers every item as if another program had written over the
// name.
func Overwritten() Step { return Taken(foreigner, 0) }

// BrokenBy answers every item of a Renew as a lease that was broken, or, by
// force, freed. If by is nil it is not known by whom.
func BrokenBy(by *store.Broken) Step {
	g := store.Grant{Status: store.StatusBroken}
	if by != nil {
		g.Holder = store.Holder{Node: by.By, Operation: by.Why}
		if by.Replaced {
			g.Holder.PID = 1
		}
		if by.Force {
			g.Status = store.StatusGone
		}
	}
	return fixed(g)
}

// brokenBy is who has broken the lease, by the answer of such a step; nil of
// any other.
func brokenBy(g store.Grant) *store.Broken {
	if g.Status != store.StatusBroken && g.Status != store.StatusGone ||
		g.Holder == (store.Holder{}) {
		return nil
	}
	return &store.Broken{
		By: g.Holder.Node, Why: g.Holder.Operation, Replaced: g.Holder.PID == 1,
		Force: g.Status == store.StatusGone,
	}
}

// Gone answers every item with StatusGone, which says nothing to an Acquire.
func Gone() Step { return fixed(store.Grant{Status: store.StatusGone}) }

// Fail answers every item with StatusUnknown and err, which must not
// be nil; the request has no effect.
func Fail(err error) Step { return fixed(store.Grant{Err: err}) }

// Hang answers nothing until the caller's context ends, and then
// Unknown with its error; the request has no effect.
func Hang() Step {
	s := Fail(nil)
	s.noReply = true
	return s
}

// Each answers the items of a batch one by one, the first by the first step,
// and so on; items beyond the last step get Pass. Only what the steps answer
// counts, not when.
func Each(steps ...Step) Step {
	var s Step
	for _, step := range steps {
		s.each = append(s.each, step.answer)
	}
	return s
}

func fixed(g store.Grant) Step { return Step{answer: answer{fixed: true, grant: g}} }

// Slow makes the request take d to reach the store: it takes effect
// after d, and not at all if the caller's context ends before.
func (s Step) Slow(d time.Duration) Step { s.slow = d; return s }

// Late makes the reply take d: the request takes effect before, and
// the caller gets Unknown if its context ends meanwhile.
func (s Step) Late(d time.Duration) Step { s.late = d; return s }

// Queued makes a [Taken] say that the claim's place stands in the store's line,
// if it has one.
func (s Step) Queued() Step { s.answer.grant.Status = store.StatusQueued; return s }

// Aged makes the answer to a Renew say that the TTL began to count d before the
// request was sent.
func (s Step) Aged(d time.Duration) Step { s.answer.grant.TTL = d; return s }

// Unsent makes a [Fail] that of a request which has never left.
func (s Step) Unsent() Step {
	s.answer.grant.Err = errors.Join(store.ErrNotSent, s.answer.grant.Err)
	return s
}

// Lost makes the request take effect and its reply get lost: the
// caller hears nothing until its context ends.
func (s Step) Lost() Step { s.noReply = true; return s }

// Broken makes the request take effect, yet the caller gets Unknown and err for
// every item.
func (s Step) Broken(err error) Step {
	s.answer.lose = err
	s.each = append([]answer(nil), s.each...)
	for i := range s.each {
		s.each[i].lose = err
	}
	return s
}

// of returns the answer for item i.
func (s Step) of(i int) answer {
	if i < len(s.each) {
		return s.each[i]
	}
	return s.answer
}
