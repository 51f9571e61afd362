package redisstore

import (
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// claiming is the job of an acquire: calls of the script for as many claims each as scriptRoom has
// room for. Neighbours that are alike share a call.
type claiming struct {
	store  *Store
	claims []renewer.Claim
	grants []renewer.Grant
	starts []int // call i has claims[starts[i]:starts[i+1]]

	only struct { // for the usual one claim, without allocations of their own
		grants [1]renewer.Grant
		starts [2]int
		words  [4 + 6]string // keys and arguments
	}
}

func (s *Store) newClaiming(claims []renewer.Claim) *claiming {
	c := &claiming{store: s, claims: claims}
	if c.grants, c.starts = c.only.grants[:], c.only.starts[:0]; len(claims) != 1 {
		c.grants = make([]renewer.Grant, len(claims))
		c.starts = make([]int, 0, len(claims)/s.perCall+2)
	}
	room := scriptRoom{store: s}
	for i := range claims {
		if !room.add(claims[i].Name) || !s.alike(&claims[i-1], &claims[i]) {
			c.starts = append(c.starts, i)
			room.begin(claims[i].Name)
		}
	}
	c.starts = append(c.starts, len(claims))
	return c
}

// alike tells whether two claims can share a call.
func (s *Store) alike(a, b *renewer.Claim) bool {
	// which confirm one at a time
	return a.TTL == b.TTL && s.plain(a) && s.plain(b) && s.replicas == 0
}

// plain tells whether a claim wants nothing that the script does for one at a time only.
func (s *Store) plain(c *renewer.Claim) bool {
	return c.Fence == 0 && c.Reserve == 0 && !s.wantsPlace(c)
}

// wantsPlace tells whether a claim is of one who has been refused and
// waits, so that it should have a place in the line.
func (s *Store) wantsPlace(c *renewer.Claim) bool {
	return c.Queue && s.lines.Load() && s.waiters.has(c.Owner)
}

func (c *claiming) size() int         { return len(c.starts) - 1 }
func (c *claiming) name(i int) string { return c.claims[c.starts[i]].Name }
func (c *claiming) weight(i int) int  { return c.starts[i+1] - c.starts[i] }

func (c *claiming) command(i int, whole bool) rueidis.Completed {
	s, part := c.store, c.claims[c.starts[i]:c.starts[i+1]]
	n, first := len(part), &part[0]
	ttl := s.ttls.of(first.TTL)
	fenceTTL := s.fenceText
	if first.TTL > s.fenceTTL { // the counter must not lapse while the lease lives
		fenceTTL = ttl
	}
	words := c.only.words[:]
	if len(c.claims) > 1 { // commands may be made by several goroutines
		words = make([]string, 4*n+6)
	}
	keys, args := words[:2*n:2*n+1], words[2*n+1:2*n+1]
	args = append(args, ttl, fenceTTL, proposal(first.Fence), strconv.Itoa(first.Reserve), "")
	for j := range part {
		keys[j], keys[n+j] = lockKeys(s.prefix, part[j].Name)
		args = append(args, part[j].Owner, s.holderText(part[j].Holder))
	}
	if s.wantsPlace(first) {
		keys = append(keys, keys[0]+lineSuffix)
		args[4] = lineTTL(first.TTL)
	}
	return acquireScript.command(s.client.B(), whole, keys, args...)
}

func (c *claiming) read(i int, r rueidis.RedisResult) {
	claims, grants := c.claims[c.starts[i]:c.starts[i+1]], c.grants[c.starts[i]:c.starts[i+1]]
	reply, err := r.ToMessage()
	if err != nil {
		for j := range grants {
			grants[j] = c.store.noGrant(err)
		}
		return
	}
	if len(claims) == 1 {
		grants[0] = c.store.readOne(reply, &claims[0])
		return
	}
	replies, err := reply.ToArray()
	for j := range grants {
		if err != nil || len(replies) != len(grants) {
			grants[j].Err = unreadable("acquire")
			continue
		}
		grants[j] = c.store.readOne(replies[j], &claims[j])
	}
}

// noGrant is the answer to a claim that the server has not answered.
func (s *Store) noGrant(err error) renewer.Grant {
	return renewer.Grant{Err: s.wrap("acquire", err), Unsent: errors.Is(err, errNotSent)}
}

// readOne reads what became of one claim.
func (s *Store) readOne(reply rueidis.RedisMessage, claim *renewer.Claim) renewer.Grant {
	if err := reply.Error(); err != nil {
		return renewer.Grant{Err: s.wrap("acquire", err)}
	}
	g, ok := readGrant(reply, claim.Fence, claim.Reserve)
	if !ok {
		g.Err = unreadable("acquire")
	}
	return g
}

// holding is the job of a renewal or a release: calls of a script for as many leases each as
// scriptRoom has room for. Neighbours of one time share a call.
type holding struct {
	store   *Store
	op      string
	script  *script
	timeOf  func(*renewer.Hold) time.Duration
	holds   []renewer.Hold
	answers []renewer.Answer
	starts  []int    // call i has holds[starts[i]:starts[i+1]]
	last    []string // further arguments

	only struct { // for the usual one hold, without allocations of their own
		answers [1]renewer.Answer
		starts  [2]int
		words   [2 + 4]string // key and arguments
	}
}

func (s *Store) newHolding(
	op string, do *script, holds []renewer.Hold, timeOf func(*renewer.Hold) time.Duration,
) *holding {
	h := &holding{store: s, op: op, script: do, timeOf: timeOf, holds: holds}
	if h.answers, h.starts = h.only.answers[:], h.only.starts[:0]; len(holds) != 1 {
		h.answers = make([]renewer.Answer, len(holds))
		h.starts = make([]int, 0, len(holds)/s.perCall+2)
	}
	h.divide()
	return h
}

func (h *holding) divide() {
	room := scriptRoom{store: h.store}
	for i := range h.holds {
		if !room.add(h.holds[i].Name) || h.timeOf(&h.holds[i-1]) != h.timeOf(&h.holds[i]) {
			h.starts = append(h.starts, i)
			room.begin(h.holds[i].Name)
		}
	}
	h.starts = append(h.starts, len(h.holds))
}

func (h *holding) size() int         { return len(h.starts) - 1 }
func (h *holding) name(i int) string { return h.holds[h.starts[i]].Name }
func (h *holding) weight(i int) int  { return h.starts[i+1] - h.starts[i] }

func (h *holding) command(i int, whole bool) rueidis.Completed {
	part := h.holds[h.starts[i]:h.starts[i+1]]
	n := len(part)
	words := h.only.words[:]
	if len(h.holds) > 1 { // commands may be made by several goroutines
		words = make([]string, 2*n+1+len(h.last))
	}
	keys, args := words[:n:n], words[n:n+1]
	args[0] = "0"
	if d := h.timeOf(&part[0]); d != 0 {
		args[0] = h.store.ttls.of(d)
	}
	leaseKeys(keys, h.store.prefix, part)
	for j := range part {
		args = append(args, h.ownerOf(&part[j]))
	}
	args = append(args, h.last...)
	return h.script.command(h.store.client.B(), whole, keys, args...)
}

// ownerOf is the owner token of a hold, and, to a release, which tokens it gives back.
func (h *holding) ownerOf(hold *renewer.Hold) string {
	if hold.Used == 0 || h.script != &releaseScript {
		return hold.Owner
	}
	return hold.Owner + decimal(hold.Used)
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
func (c *calls) weight(int) int                              { return 1 }
func (c *calls) command(i int, whole bool) rueidis.Completed { return c.build(i, whole) }
func (c *calls) read(i int, r rueidis.RedisResult)           { c.readOne(i, r) }
