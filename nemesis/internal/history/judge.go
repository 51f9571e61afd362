package history

import (
	"fmt"
	"time"
)

// Violation is a promise that was not kept.
type Violation struct{ Rule, Text string }

func violation(rule, format string, args ...any) Violation {
	return Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
}

// String says which rule was broken, and how.
func (v Violation) String() string { return v.Rule + ": " + v.Text }

// Run is all that there is to judge.
type Run struct {
	Processes []*Process
	// Limits are how many may have a name at once; 1 where it has no entry.
	Limits map[string]int
	// Excused are the times in which a fault voided exclusion: more may believe.
	Excused []Window
	// Margin is Config.Margin: how far belief that ends by the clock
	// keeps from what the store holds.
	Margin time.Duration
	// Request is what a call may take besides the time for which it may wait:
	// Config.RequestTimeout, which a store may overrun by its write timeout.
	Request time.Duration
	// MostWait is the longest that an Acquire may take in a process that runs; 0: any time.
	MostWait time.Duration
}

// Report is the judgement.
type Report struct {
	Grants     int           // leases that were had
	Slots      int           // of these, slots of limits
	Full       int           // of these, the last that there were at their time
	HandedOver int           // of these, without asking the store
	Lost       int           // of these, lost before they were released
	Told       int           // of these, lost because they were broken or replaced
	Broken     int           // leases that the store has confirmed to be broken
	Replaced   int           // calls that the store has confirmed to be the newest
	Waited     time.Duration // the longest Acquire of a process that ran meanwhile
	Overlaps   int           // leases believed in beside as many as may be, all excused
	Longest    time.Duration
	Violations []Violation
}

const (
	// validSlack is for the rounding of clocks.
	validSlack = time.Millisecond
	// lateSlack is for a busy machine, in which no process was paused for
	// long enough to be told as paused.
	lateSlack = 60 * time.Millisecond
	// callSlack is the same for calls: what is looked for are those that hang.
	callSlack = time.Second
)

// Judge looks for everything that must not be.
func Judge(run Run) Report {
	leases := leases(run.Processes)
	r := Report{Grants: len(leases)}
	for _, l := range leases {
		if l.Handed {
			r.HandedOver++
		}
		if l.Over != Never {
			r.Lost++
		}
		if l.Broken {
			r.Told++
		}
		if run.Limits[l.Name] != 0 {
			r.Slots++
		}
		r.deadline(l, run.Margin)
	}
	for _, p := range run.Processes {
		r.calls(p, run)
		for _, l := range p.leases {
			r.told(p, l, run.Margin)
		}
	}
	r.broken(run)
	found, full := overlaps(leases, run)
	for _, o := range found {
		r.overlap(o, run)
	}
	r.Full = full
	r.Violations = append(r.Violations, order(leases, run)...)
	return r
}

// most is how many may have a name at once.
func (run Run) most(name string) int { return max(1, run.Limits[name]) }

func (r *Report) found(rule, format string, args ...any) {
	r.Violations = append(r.Violations, violation(rule, format, args...))
}

func (r *Report) overlap(o overlap, run Run) {
	if _, ok := excuse(run.Excused, o.from, o.to); !ok {
		r.Violations = append(r.Violations, Violation{"exclusion", o.String()})
		return
	}
	r.Overlaps++
	r.Longest = max(r.Longest, o.lasted())
}

// deadline checks a lease against the deadline that was published for it.
func (r *Report) deadline(l *Lease, margin time.Duration) {
	if l.Until == Never {
		r.found("grant", "%q: %s has token %d, which the store did not grant", l.Name, l.Process,
			l.Fence)
		return
	}
	late := func(by int64, allowed time.Duration, what string) {
		if past := time.Duration(by); past > allowed {
			r.found("deadline", "%q: in %s token %d %s, by %v; %v is allowed for", l.Name,
				l.Process, l.Fence, what, past, allowed)
		}
	}
	late(l.Valid-l.Until, validSlack, "was valid after its deadline")
	late(l.Beyond, validSlack, "was to be valid for longer than its last request allows")
	late(l.Late, margin+lateSlack, "had its context for longer than its deadline")
}

// acquiring is what a call does that waits for a lock.
const acquiring = "Acquire"

// calls finds those that took longer than they may: what they may wait, and a request to the store.
// Those that wait for a lock are not to wait for longer than MostWait, while their process ran.
func (r *Report) calls(p *Process, run Run) {
	for _, c := range p.calls {
		took, paused := time.Duration(c.to-c.from), time.Duration(p.pausedFor(c.from, c.to))
		allowed := c.allowed + run.Request + callSlack
		if took > allowed && paused == 0 {
			r.found("bounded", "%q: in %s %s took %v, and may take %v", c.name, p.Name, c.what,
				took, allowed)
		}
		if c.what != acquiring {
			continue
		}
		r.Waited = max(r.Waited, took-paused)
		if run.MostWait != 0 && took-paused > run.MostWait {
			r.found("starved", "%q: in %s a caller waited for %v, and %v is the most", c.name,
				p.Name, took-paused, run.MostWait)
		}
	}
}
