package history

import "time"

// call is an Acquire or a Release that has returned.
type call struct {
	what     string
	name     string
	from, to int64
	allowed  time.Duration // that it may wait for others
}

// acquiring is what a call does that waits for a lock.
const acquiring = "Acquire"

// callSlack is for a busy machine: what is looked for are calls that hang.
const callSlack = time.Second

// hangs finds calls that took longer than they may: what they may wait, and a request to the store.
func hangs(p *Process, request time.Duration) []Violation {
	var found []Violation
	for _, c := range p.calls {
		allowed := c.allowed + request + callSlack
		if took := time.Duration(c.to - c.from); took > allowed && !p.paused(c.from, c.to) {
			found = append(found,
				violation("bounded", "%q: in %s %s took %v, and may take %v", c.name, p.Name,
					c.what, took, allowed))
		}
	}
	return found
}

// starved finds calls that waited for a lock for longer than most, if most is not 0, and notes the
// longest. The time for which the process did not run does not count.
func (r *Report) starved(p *Process, most time.Duration) []Violation {
	var found []Violation
	for _, c := range p.calls {
		took := time.Duration(c.to - c.from)
		if c.what != acquiring || took <= r.Waited && (most == 0 || took <= most) {
			continue
		}
		took -= time.Duration(p.pausedFor(c.from, c.to))
		r.Waited = max(r.Waited, took)
		if most != 0 && took > most {
			found = append(found, violation("starved", "%q: in %s a caller waited for %v, "+
				"and %v is the most", c.name, p.Name, took, most))
		}
	}
	return found
}
