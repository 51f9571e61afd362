package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// transferWork is what a request does under its lock. It is a timer's
// time, so that the processors are left to what is measured.
const transferWork = time.Millisecond

// crowd is how a crowd of requests was served.
type crowd struct {
	work

	who       string
	locked    bool
	span      time.Duration // for which requests were made
	overlaps  int64
	unordered int64
	missing   int64 // successes that are in no balance
	before    int   // goroutines
	after     int
	keys      int // left in Redis
}

// crowdOn lets the generator loose on a service: for the whole span with
// a keeper, and without one, to see what the bank sees then, for a fifth.
func (l *loading) crowdOn(protocol string, k *renewer.Keeper) (c *crowd, err error) {
	b := newBank(l.keys, transferWork)
	s, err := serve(protocol, b, k)
	if err != nil {
		return nil, err
	}
	defer s.close()
	c = &crowd{who: protocol, locked: k != nil}
	j := job{Protocol: protocol, Addr: s.addr, Workers: l.crowd, Accounts: l.keys, For: l.span}
	if !c.locked {
		c.who += ", no lock"
		j.For /= 5
	}
	c.span = j.For
	if c.before, err = countGoroutines(); err != nil {
		return nil, err
	}
	if c.work, err = l.profiled(j, c.locked); err != nil {
		return nil, err
	}
	if c.after, err = settle(countGoroutines, c.before); err != nil {
		return nil, err
	}
	c.keys, err = leaseKeys(l.redis)
	c.overlaps, c.unordered, c.missing = b.overlaps.Load(), b.unordered.Load(), int64(
		c.OK,
	)-b.total()
	return c, err
}

// profiled does a job, with profiles of this process if they are
// asked for and the job is worth one.
func (l *loading) profiled(j job, worth bool) (work, error) {
	if !worth {
		return l.generator.ask(j)
	}
	profile, err := startProfile(l.profile, "load-"+j.Protocol, "allocs")
	if err != nil {
		return work{}, err
	}
	w, err := l.generator.ask(j)
	return w, errors.Join(err, profile.stop())
}

// violations are all ways in which exclusion can be seen to fail. A
// success that is missing is one, and so is one too many.
func (c *crowd) violations() int64 { return c.overlaps + c.unordered + max(c.missing, -c.missing) }

func (c *crowd) failed() int { return c.Requests - c.OK }

func crowdTable(all []*crowd) table {
	t := table{{
		"", "requests", "requests/s", "p50", "p99", "refused or failed", "two at a time",
		"tokens out of order", "updates lost",
		"goroutines before", "after", "lease keys left",
	}}
	for _, c := range all {
		t.add(c.who, fmt.Sprint(c.Requests),
			fmt.Sprintf("%.0f", float64(c.Requests)/c.Took.Seconds()),
			c.P50.Round(100*time.Microsecond).String(), c.P99.Round(100*time.Microsecond).String(),
			countsOf(c.Refused),
			fmt.Sprint(c.overlaps), fmt.Sprint(c.unordered), fmt.Sprint(c.missing),
			fmt.Sprint(c.before), fmt.Sprint(c.after), fmt.Sprint(c.keys))
	}
	return t
}

func crowdTargets(all []*crowd) (targets []target) {
	for _, c := range all {
		who := c.who + ", "
		if !c.locked {
			// Otherwise the bank could not see a violation if there was one.
			targets = append(targets,
				target{
					who + "violations of exclusion", fmt.Sprint(c.violations()), "> 0",
					c.violations() > 0,
				})
			continue
		}
		left := max(c.after-c.before, 0)
		targets = append(targets,
			target{
				who + "violations of exclusion", fmt.Sprint(c.violations()), "0",
				c.violations() == 0,
			},
			target{who + "refused or failed", fmt.Sprint(c.failed()), "0", c.failed() == 0},
			target{who + "goroutines left", fmt.Sprint(left), "0", left == 0},
			target{who + "lease keys left", fmt.Sprint(c.keys), "0", c.keys == 0})
	}
	return targets
}
