package history

import (
	"fmt"
	"slices"
	"time"
)

// Violation is a promise that was not kept.
type Violation struct {
	Rule string
	Text string
}

func violation(rule, format string, args ...any) Violation {
	return Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
}

// String says which rule was broken, and how.
func (v Violation) String() string { return v.Rule + ": " + v.Text }

// Overlap is a time in which two leases of one name were believed in.
type Overlap struct {
	First, Second *Lease
	From, To      int64
	For           time.Duration
	Excused       bool // a fault that voids exclusion made it possible
	// Agreed is the longest for which the clients of both had taken the same server for the primary
	// meanwhile.
	Agreed time.Duration
	// Unheard: at its end they took different servers for it.
	Unheard bool
}

// overlaps sweeps over leases in the order of their beginnings: of
// one name, none may begin before those before it have ended.
func overlaps(leases []*Lease, excused []Window, ttl time.Duration) []Overlap {
	var found []Overlap
	last := make(map[string][]*Lease) // those of a name that have not ended yet
	for _, l := range leases {
		var open []*Lease
		for _, before := range last[l.Name] {
			if before.End <= l.Begin {
				continue
			}
			open = append(open, before)
			end := min(before.End, l.End)
			if end <= l.Begin {
				continue
			}
			o := Overlap{
				First: before, Second: l, From: l.Begin, To: end, For: time.Duration(end - l.Begin),
				Agreed: agreed(before.by, l.by, l.Begin, end), Unheard: apart(before.by, l.by, end),
			}
			o.Excused = slices.ContainsFunc(excused, func(w Window) bool {
				return w.allows(o, ttl)
			})
			found = append(found, o)
		}
		last[l.Name] = append(open, l)
	}
	return found
}

// String tells of the two leases, with times from a common origin.
func (o Overlap) String() string {
	text := fmt.Sprintf("%q: %s believed in token %d for %v after %s had begun with %d (%s)",
		o.First.Name, o.First.Process, o.First.Fence, o.For,
		o.Second.Process, o.Second.Fence, o.ends())
	if o.Agreed > 0 {
		text += fmt.Sprintf("; the clients of both had taken the same server for the primary for "+
			"%v", o.Agreed)
	}
	return text
}

func (o Overlap) ends() string {
	ago := func(t int64) string {
		if t == Never {
			return "never"
		}
		return time.Duration(t - o.Second.Begin).String()
	}
	f := o.First
	return fmt.Sprintf("from then: first began %s, deadline %s, context over %s %q, release %s; "+
		"second asked %s",
		ago(f.Begin), ago(f.Until), ago(f.Over), f.Lost, ago(f.Freeing), ago(o.Second.Asked))
}
