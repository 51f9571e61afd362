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

// overlap is a time in which two leases of one name were believed in.
type overlap struct {
	first, second *Lease
	from, to      int64
}

func (o overlap) lasted() time.Duration { return time.Duration(o.to - o.from) }

// overlaps sweeps over leases in the order of their beginnings: of
// one name, none may begin before those before it have ended.
func overlaps(leases []*Lease) []overlap {
	var found []overlap
	last := make(map[string][]*Lease) // those of a name that have not ended yet
	for _, l := range leases {
		open := slices.DeleteFunc(last[l.Name], func(o *Lease) bool { return o.End <= l.Begin })
		for _, before := range open {
			if end := min(before.End, l.End); end > l.Begin {
				found = append(found, overlap{before, l, l.Begin, end})
			}
		}
		last[l.Name] = append(open, l)
	}
	return found
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
	return fmt.Sprintf("%q: %s believed in token %d for %v after %s had begun with %d (from then: "+
		"first began %s, deadline %s, context over %s %q, release %s; second asked %s)",
		f.Name, f.Process, f.Fence, o.lasted(), s.Process, s.Fence, ago(f.Begin), ago(f.Until),
		ago(f.Over), f.Lost, ago(f.Freeing), ago(s.Asked))
}

// order checks that the leases of a name can have been those of a lock: got one after another
// between the call and the return of Acquire, each when the one before it had ended, with tokens
// that rise. As tokens rise, only one order is possible, so that none has to be searched for: it is
// enough that each step comes as early as it can.
//
// A fault that voids exclusion may have ended a lease from its own beginning on without the owner's
// knowing, perhaps before Acquire returned. Hand-offs inside the owner's process may go on for a
// moment beside a new grant, with tokens below its own; they are not the lock's affair then.
func order(leases []*Lease, excused []Window) []Violation {
	byName := make(map[string][]*Lease)
	for _, l := range leases {
		byName[l.Name] = append(byName[l.Name], l)
	}
	var found []Violation
	for name, all := range byName {
		slices.SortStableFunc(all, func(a, b *Lease) int { return cmp.Compare(a.Fence, b.Fence) })
		last, free := new(Lease), int64(0)
		for i, l := range all {
			if i > 0 && l.Fence == all[i-1].Fence {
				found = append(found, violation("token twice", "%q: %s and %s both have %d", name,
					all[i-1].Process, l.Process, l.Fence))
			}
			_, asking := excuse(excused, l.Asked, l.Begin)
			w, believing := excuse(excused, l.Begin, l.End)
			if l.Handed && asking && believing {
				continue
			}
			if free > l.Begin {
				found = append(found, violation("order", "%q: %s had %d, %v before %d of %s can "+
					"have been asked for and ended", name, l.Process, l.Fence,
					time.Duration(free-l.Begin), last.Fence, last.Process))
				free = l.Begin // or all that follow would be told of as well
			}
			last, free = l, max(free, l.Asked)
			if !believing {
				free = max(free, l.End)
			} else if !l.Handed {
				free = max(free, min(w.From, l.End))
			}
		}
	}
	return found
}
