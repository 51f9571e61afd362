package history

import (
	"cmp"
	"slices"
	"time"
)

// Run is all that there is to judge.
type Run struct {
	Processes []*Process
	// Excused are the times in which a fault voided exclusion: two may believe.
	Excused []Window
	// FailOvers are those that left the former primary up.
	FailOvers []FailOver
	// Refused are uses of the fenced resource that came with too low a token.
	Refused []Refusal
	// TTL is the locks'.
	TTL time.Duration
	// Margin is Config.Margin: how far belief that ends by the clock
	// keeps from what the store holds.
	Margin time.Duration
	// Request is what a call may take besides the time for which it may wait:
	// Config.RequestTimeout, which a store may overrun by its write timeout.
	Request time.Duration
	// MostWait is the longest that an Acquire may take in a process that runs; 0: any time.
	MostWait time.Duration
	// Idle is how many leases are to be held besides at the end.
	Idle int
}

// Report is the judgement.
type Report struct {
	Grants     int // leases that were had
	HandedOver int // of these, without asking the store
	Lost       int // of these, lost before they were released
	// the longest Acquire of a process that ran meanwhile
	Waited   time.Duration
	Overlaps int // pairs of leases believed in at the same time, all excused
	Longest  time.Duration
	// the longest overlap in a fail-over, from when the clients of both were told
	Told       time.Duration
	Unheard    int // of Overlaps, those in which they had not both been told by the end
	Former     Former
	Refused    int
	Usage      Usage
	Violations []Violation
}

const (
	// validSlack is for the rounding of clocks.
	validSlack = time.Millisecond
	// lateSlack is for a busy machine, in which no process was paused for
	// long enough to be told as paused.
	lateSlack = 60 * time.Millisecond
)

// Judge looks for everything that must not be.
func Judge(run Run) Report {
	leases := leases(run.Processes)
	r := Report{Grants: len(leases), Refused: len(run.Refused)}
	for _, l := range leases {
		if l.Handed {
			r.HandedOver++
		}
		if l.Over != Never {
			r.Lost++
		}
		r.Violations = append(r.Violations, deadline(l, run.Margin)...)
	}
	for _, p := range run.Processes {
		r.Violations = append(r.Violations, hangs(p, run.Request)...)
		r.Violations = append(r.Violations, r.starved(p, run.MostWait)...)
	}
	u, grown := usage(run.Processes)
	r.Usage = u
	r.Violations = append(r.Violations, grown...)
	if u.Idle < run.Idle {
		r.Violations = append(r.Violations,
			violation("progress", "of %d idle leases only %d were held at the end", run.Idle,
				u.Idle))
	}
	seen, lived := former(run)
	r.Former = seen
	r.Violations = append(r.Violations, lived...)
	for _, o := range overlaps(leases, run.Excused, run.TTL) {
		if !o.Excused {
			r.Violations = append(r.Violations, Violation{"exclusion", o.String()})
			continue
		}
		r.Overlaps++
		r.Longest = max(r.Longest, o.For)
		if o.Unheard {
			r.Unheard++
		} else if o.Agreed <= run.TTL {
			r.Told = max(r.Told, min(o.For, o.Agreed))
		}
	}
	r.Violations = append(r.Violations, tokens(leases, run.Excused)...)
	r.Violations = append(r.Violations, refusals(run.Refused, leases, run.Excused)...)
	r.Violations = append(r.Violations, unmodelled(leases, run.Excused)...)
	return r
}

// deadline checks a lease against the deadline that was published for it.
func deadline(l *Lease, margin time.Duration) []Violation {
	var found []Violation
	if l.Until == Never {
		return append(found, violation("grant",
			"%q: %s has token %d, which the store did not grant", l.Name, l.Process, l.Fence))
	}
	if past := time.Duration(l.Valid - l.Until); past > validSlack {
		found = append(found, violation("deadline",
			"%q: in %s token %d was valid %v after its deadline", l.Name, l.Process, l.Fence, past))
	}
	if past := time.Duration(l.Beyond); past > validSlack {
		found = append(found, violation("deadline", "%q: in %s token %d was to be valid for %v "+
			"longer than its last request allows",
			l.Name, l.Process, l.Fence, past))
	}
	if past := time.Duration(l.Late); past > margin+lateSlack {
		found = append(found, violation("deadline", "%q: in %s the context of token %d ended %v "+
			"after its deadline, of which %v are allowed for",
			l.Name, l.Process, l.Fence, past, margin))
	}
	return found
}

// sortedBy returns the leases in the order of an instant.
func sortedBy(leases []*Lease, at func(*Lease) int64) []*Lease {
	sorted := slices.Clone(leases)
	slices.SortStableFunc(sorted, func(a, b *Lease) int { return cmp.Compare(at(a), at(b)) })
	return sorted
}
