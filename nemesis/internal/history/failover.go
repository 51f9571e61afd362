package history

import (
	"slices"
	"time"
)

// FailOver is one that left the former primary up and in reach of clients.
type FailOver struct {
	// Former is the address of the former primary.
	Former string
	// Refused is from when it refused to write; 0: not before it was demoted.
	Refused int64
	// Seen are the leases that were seen there, each at the last instant.
	Seen []Sight
}

// Sight is a lease that a server was seen to hold, by an instant from before it was asked.
type Sight struct {
	At      int64
	Name    string
	Process string
}

// told is a server that a process's client took for the primary from an instant on.
type told struct {
	at     int64
	server string
}

// primary returns what the process's client took for the primary at an instant, and since when; ""
// if it had been told of none.
func (p *Process) primary(at int64) (server string, since int64) {
	for _, t := range slices.Backward(p.told) {
		if t.at <= at {
			return t.server, t.at
		}
	}
	return "", 0
}

// agreed returns the longest for which, at any instant of an interval, the clients of two processes
// had taken the same server for the primary; 0 if they did at none. Whatever lives longer than a
// TTL stands on a request that was made since.
func agreed(a, b *Process, from, to int64) time.Duration {
	longest := int64(0)
	ask := func(at int64) {
		one, since := a.primary(at)
		other, later := b.primary(at)
		if one == other && one != "" {
			longest = max(longest, at-max(since, later))
		}
	}
	ask(to)
	for _, t := range slices.Concat(a.told, b.told) {
		if from < t.at && t.at <= to {
			ask(t.at - 1) // the last instant before one of them changed its mind
		}
	}
	return time.Duration(longest)
}

// apart reports whether at an instant two clients took different servers for the primary.
func apart(a, b *Process, at int64) bool {
	one, _ := a.primary(at)
	other, _ := b.primary(at)
	return one != other
}

// allows reports whether the window's fault made an overlap possible. A fail-over does so between
// clients that have not all been told of the same primary for a TTL; and no longer than a TTL after
// the former primary has refused to write.
func (w Window) allows(o overlap, ttl time.Duration) bool {
	return w.touches(o.from, o.to) && (!w.FailOver ||
		o.agreed <= ttl && (w.Refused == 0 || o.to-w.Refused <= int64(ttl)))
}

// Former is what was seen of leases on former primaries.
type Former struct {
	FailOvers int
	// Leases were seen there after their holder's client had been told of another primary; Longest
	// is the longest after.
	Leases  int
	Longest time.Duration
	// Unheard were seen there while their holder's client had not been told.
	Unheard int
	// Refused is the longest that one was seen after the server had refused to write.
	Refused time.Duration
}

// former judges how long leases live on former primaries.
func (r *Report) former(run Run) {
	byName := make(map[string]*Process)
	for _, p := range run.Processes {
		byName[p.Name] = p
	}
	for _, o := range run.FailOvers {
		r.Former.FailOvers++
		for _, s := range o.Seen {
			r.sight(run, o, s, byName[s.Process])
		}
	}
}

// sight judges one lease. A request that was under way when the client was told may arrive at the
// former primary so much later as a request may take.
func (r *Report) sight(run Run, o FailOver, s Sight, p *Process) {
	const rule = "former primary"
	f := &r.Former
	if o.Refused != 0 {
		past := time.Duration(s.At - o.Refused)
		f.Refused = max(f.Refused, past)
		if past > run.TTL+validSlack {
			r.found(rule, "%q: %s had a lease on %s %v after that had refused to write", s.Name,
				s.Process, o.Former, past)
		}
	}
	if p == nil {
		r.found(rule, "%q: no process called %q has a lease on %s", s.Name, s.Process, o.Former)
		return
	}
	server, since := p.primary(s.At)
	if server == "" || server == o.Former {
		f.Unheard++
		return
	}
	f.Leases++
	lived := time.Duration(s.At - since)
	f.Longest = max(f.Longest, lived)
	if lived > run.TTL+run.Request {
		r.found(rule, "%q: %s had a lease on %s %v after its client was told that %s is the primary",
			s.Name, s.Process, o.Former, lived, server)
	}
}
