package history

import "time"

// call is an Acquire or a Release that has returned.
type call struct {
	what     string
	name     string
	from, to int64
	allowed  time.Duration // that it may wait for others
}

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
