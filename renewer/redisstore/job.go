package redisstore

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// claiming is the job of an acquire: a call of the script for each claim.
type claiming struct {
	store  *Store
	claims []renewer.Claim
	grants []renewer.Grant
	only   [1]renewer.Grant // the usual grants, without an allocation of their own
}

func (s *Store) newClaiming(claims []renewer.Claim) *claiming {
	c := &claiming{store: s, claims: claims}
	if c.grants = c.only[:]; len(claims) != 1 {
		c.grants = make([]renewer.Grant, len(claims))
	}
	return c
}

func (c *claiming) size() int         { return len(c.claims) }
func (c *claiming) name(i int) string { return c.claims[i].Name }

func (c *claiming) command(i int, whole bool) rueidis.Completed {
	s, claim := c.store, &c.claims[i]
	lease, fence := lockKeys(s.prefix, claim.Name)
	ttl := s.ttls.of(claim.TTL)
	fenceTTL := s.fenceText
	if claim.TTL > s.fenceTTL { // the counter must not lapse while the lease lives
		fenceTTL = ttl
	}
	keys := []string{lease, fence}
	if claim.Queue && s.lines && s.hub.lineup.has(claim.Owner) {
		return acquireScript.command(s.client.B(), whole, append(keys, lease+lineSuffix),
			claim.Owner, ttl, fenceTTL, s.holderText(claim.Holder), proposal(claim.Fence), strconv.Itoa(claim.Reserve), lineTTL(claim.TTL))
	}
	if claim.Reserve > 0 {
		return acquireScript.command(s.client.B(), whole, keys,
			claim.Owner, ttl, fenceTTL, s.holderText(claim.Holder), proposal(claim.Fence), strconv.Itoa(claim.Reserve))
	}
	return acquireScript.command(s.client.B(), whole, keys,
		claim.Owner, ttl, fenceTTL, s.holderText(claim.Holder), proposal(claim.Fence))
}

func (c *claiming) read(i int, r rueidis.RedisResult) {
	reply, err := r.ToMessage()
	if err != nil {
		c.grants[i].Err = c.store.wrap("acquire", err)
		return
	}
	g, ok := readGrant(reply, c.claims[i].Fence, c.claims[i].Reserve)
	if !ok {
		g.Err = unreadable("acquire")
	}
	c.grants[i] = g
}

// holding is the job of a renewal or a release: calls of a script for at most Store.perCall leases each. Neighbours of one time
// share a call.
type holding struct {
	store   *Store
	op      string
	script  *script
	timeOf  func(*renewer.Hold) time.Duration
	holds   []renewer.Hold
	answers []renewer.Answer
	starts  []int    // call i has holds[starts[i]:starts[i+1]]
	last    []string // further arguments

	only struct { // the usual answers and starts, without allocations of their own
		answers [1]renewer.Answer
		starts  [2]int
	}
}

func (s *Store) newHolding(op string, do *script, holds []renewer.Hold, timeOf func(*renewer.Hold) time.Duration) *holding {
	h := &holding{store: s, op: op, script: do, timeOf: timeOf, holds: holds}
	if h.answers, h.starts = h.only.answers[:], h.only.starts[:0]; len(holds) != 1 {
		h.answers = make([]renewer.Answer, len(holds))
		h.starts = make([]int, 0, len(holds)/s.perCall+2)
	}
	h.divide()
	return h
}

func (h *holding) divide() {
	for i := range h.holds {
		if n := len(h.starts); n == 0 || i-h.starts[n-1] == h.store.perCall || h.timeOf(&h.holds[i-1]) != h.timeOf(&h.holds[i]) {
			h.starts = append(h.starts, i)
		}
	}
	h.starts = append(h.starts, len(h.holds))
}

func (h *holding) size() int         { return len(h.starts) - 1 }
func (h *holding) name(i int) string { return h.holds[h.starts[i]].Name }

func (h *holding) command(i int, whole bool) rueidis.Completed {
	part := h.holds[h.starts[i]:h.starts[i+1]]
	size := 1 + len(part) + len(h.last)
	keys, args := make([]string, len(part)), make([]string, 1, size)
	args[0] = "0"
	if d := h.timeOf(&part[0]); d != 0 {
		args[0] = h.store.ttls.of(d)
	}
	for j := range part {
		keys[j] = leaseKey(h.store.prefix, part[j].Name)
		args = append(args, part[j].Owner)
	}
	args = append(args, h.last...)
	return h.script.command(h.store.client.B(), whole, keys, args...)
}

func (h *holding) read(i int, r rueidis.RedisResult) {
	part := h.answers[h.starts[i]:h.starts[i+1]]
	reply, err := r.ToMessage()
	switch {
	case err != nil:
		err = h.store.wrap(h.op, err)
	case !readAnswers(reply, part):
		err = unreadable(h.op)
	}
	for j := range part {
		part[j].Err = err
	}
}

// calls is a job of functions.
type calls struct {
	n       int
	nameOf  func(i int) string
	build   func(i int, whole bool) rueidis.Completed
	readOne func(i int, r rueidis.RedisResult)
}

func (c *calls) size() int                                   { return c.n }
func (c *calls) name(i int) string                           { return c.nameOf(i) }
func (c *calls) command(i int, whole bool) rueidis.Completed { return c.build(i, whole) }
func (c *calls) read(i int, r rueidis.RedisResult)           { c.readOne(i, r) }
