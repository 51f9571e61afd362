package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Window is a time in which a fault was at work.
type Window struct {
	From, To int64
	What     string
}

// touches reports whether the window and an interval share an instant.
func (w Window) touches(from, to int64) bool { return w.From <= to && from <= w.To }

// excuse returns the window that touches an interval.
func excuse(windows []Window, from, to int64) (w Window, ok bool) {
	i := slices.IndexFunc(windows, func(w Window) bool { return w.touches(from, to) })
	if i < 0 {
		return w, false
	}
	return windows[i], true
}

// overlap is a time in which a lease was believed in beside as many of its name as may be at once.
type overlap struct {
	first, second *Lease // the second is the one too many, until the first has ended
	most, count   int    // how many may be, and how many were when it began
	from, to      int64
}

func (o overlap) lasted() time.Duration { return time.Duration(o.to - o.from) }

// overlaps sweeps over leases in the order of their beginnings: of one name, none may begin before
// enough of those before it have ended. full is how often a limit was reached.
func overlaps(leases []*Lease, run Run) (found []overlap, full int) {
	last := make(map[string][]*Lease) // those of a name that have not ended yet
	for _, l := range leases {
		open := slices.DeleteFunc(last[l.Name], func(o *Lease) bool { return o.End <= l.Begin })
		slices.SortFunc(open, func(a, b *Lease) int { return cmp.Compare(b.End, a.End) })
		most := run.most(l.Name)
		for _, before := range open[min(most-1, len(open)):] {
			if end := min(before.End, l.End); end > l.Begin {
				found = append(found, overlap{before, l, most, len(open) + 1, l.Begin, end})
			}
		}
		if most > 1 && len(open) == most-1 {
			full++
		}
		last[l.Name] = append(open, l)
	}
	return found, full
}

// String tells of the two leases, with times from when the second began.
func (o overlap) String() string {
	ago := func(t int64) string {
		if t == Never {
			return "never"
		}
		return time.Duration(t - o.from).String()
	}
	f, s := o.first, o.second
	return fmt.Sprintf("%q: %d at once, and %d may be; %s believed in token %d for %v after %s "+
		"had begun with %d (from then: first began %s, deadline %s, context over %s %q, release "+
		"%s; second asked %s)", f.Name, o.count, o.most, f.Process, f.Fence, o.lasted(), s.Process,
		s.Fence, ago(f.Begin), ago(f.Until), ago(f.Over), f.Lost, ago(f.Freeing), ago(s.Asked))
}

// ahead is how far tokens may be above the server's clock, in us: those that are reserved for
// hand-offs are, and all that are granted beside them. A server that forgets its mark goes on from
// its clock, and so may give lower ones for that long.
const ahead = int64(10 * time.Millisecond / time.Microsecond)

// forgot reports whether a token can follow a higher one, had before it at an instant: their server
// forgot its mark meanwhile.
func (run Run) forgot(higher, lower *Lease) bool {
	_, ok := excuse(run.Excused, higher.Asked, lower.Begin)
	return ok && higher.Fence-lower.Fence <= ahead
}

// outOfTurn reports whether a lease can have come before one with a lower token, of those before it
// in the order of tokens, since their server forgot its mark between the two.
func (run Run) outOfTurn(l *Lease, before []*Lease) bool {
	for _, o := range slices.Backward(before) {
		if l.Fence-o.Fence > ahead {
			break
		}
		if o.Begin > l.Begin && run.forgot(l, o) {
			return true
		}
	}
	return false
}

// order checks that the leases of a name can have been those of a lock, or of a limit: got one
// after another between the call and the return of Acquire, each when enough of those before it had
// ended, with tokens that rise. As tokens rise, only one order is possible, so that none has to be
// searched for: it is enough that each step comes as early as it can.
//
// A fault that voids exclusion may have ended a lease from its own beginning on without the owner's
// knowing, perhaps before Acquire returned. Hand-offs inside the owner's process may go on for a
// moment beside a new grant, with tokens below its own; they are not the lock's affair then.
func order(leases []*Lease, run Run) []Violation {
	byName := make(map[string][]*Lease)
	for _, l := range leases {
		byName[l.Name] = append(byName[l.Name], l)
	}
	var found []Violation
	for name, all := range byName {
		slices.SortStableFunc(all, func(a, b *Lease) int { return cmp.Compare(a.Fence, b.Fence) })
		last, granted := new(Lease), int64(0)
		free := make([]int64, run.most(name)) // from when each slot is, the earliest first
		for i, l := range all {
			if i > 0 && l.Fence == all[i-1].Fence && !run.forgot(all[i-1], l) {
				found = append(found, violation("token twice", "%q: %s and %s both have %d", name,
					all[i-1].Process, l.Process, l.Fence))
			}
			_, asking := excuse(run.Excused, l.Asked, l.Begin)
			w, believing := excuse(run.Excused, l.Begin, l.End)
			if l.Handed && asking && believing {
				continue
			}
			at := max(granted, free[0])
			if at > l.Begin && run.outOfTurn(l, all[:i]) {
				at = l.Begin
			}
			if at > l.Begin {
				found = append(found, violation("order", "%q: %s had %d, %v before %d of %s, and "+
					"those before it, can have been asked for and ended", name, l.Process, l.Fence,
					time.Duration(at-l.Begin), last.Fence, last.Process))
				at = l.Begin // or all that follow would be told of as well
			}
			last, granted, free[0] = l, max(at, l.Asked), at
			if !believing {
				free[0] = max(at, l.End)
			} else if !l.Handed {
				free[0] = max(at, min(w.From, l.End))
			}
			slices.Sort(free)
		}
	}
	return found
}
