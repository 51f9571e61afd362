package history

import (
	"cmp"
	"slices"
	"time"
)

// broken checks that no lease is renewed once it is known to be broken, or to have been replaced:
// so it ends at its deadline at the latest, and the name passes on.
func (r *Report) broken(run Run) {
	type token struct {
		name  string
		fence int64
	}
	broke := make(map[token]int64)       // by when it was known
	replaced := make(map[string][]Event) // by name, in the order in which they were sent
	for _, p := range run.Processes {
		for _, e := range p.breaks {
			if e.Kind == Replaced {
				replaced[e.Name] = append(replaced[e.Name], e)
				r.Replaced++
				continue
			}
			key := token{e.Name, e.Fence}
			if at, ok := broke[key]; !ok || e.At < at {
				broke[key] = e.At
			}
		}
	}
	r.Broken = len(broke)
	for _, all := range replaced {
		slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Sent, b.Sent) })
	}
	for _, p := range run.Processes {
		for _, g := range p.grants {
			if at, ok := broke[token{g.name, g.fence}]; ok {
				r.renewed(p, g, at, run)
			}
		}
		for _, l := range p.leases {
			all := replaced[l.Name]
			first, _ := slices.BinarySearchFunc(all, l.Begin+1,
				func(e Event, at int64) int { return cmp.Compare(e.Sent, at) })
			if l.grant != nil && first < len(all) {
				r.renewed(p, l.grant, all[first].At, run)
			}
		}
	}
}

// renewed looks for a renewal that was sent after an instant, and confirmed.
func (r *Report) renewed(p *Process, g *grant, broken int64, run Run) {
	if g.renewed <= broken {
		return
	}
	if _, ok := excuse(run.Excused, broken, g.renewed); ok {
		return
	}
	r.found("broken", "%q: %s renewed token %d by a request that was sent %v after it was broken",
		g.name, p.Name, g.fence, time.Duration(g.renewed-broken))
}

// told checks that an operation hears at once of what its process has been told: that its lease is
// broken, or is another's.
func (r *Report) told(p *Process, l *Lease, margin time.Duration) {
	end := min(l.Over, l.Freeing, p.killed)
	late := time.Duration(end - l.Refused)
	if allowed := margin + lateSlack; late > allowed && p.pausedFor(l.Refused, end) == 0 {
		r.found("unheard", "%q: in %s token %d had its context for %v after a renewal was "+
			"refused; %v is allowed for", l.Name, p.Name, l.Fence, late, allowed)
	}
}
