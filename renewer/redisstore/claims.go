package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/native"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Acquire implements [store.Store].
func (s *engine) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	presents := false
	for i := range claims {
		if c := &claims[i]; c.Place != 0 && !samePlace(claims, i-1) {
			asks := s.codec.replicas > 0 || givesWay(c) || c.Manual
			presents = s.line.Present(c, s.codec.faceText(c.Holder), asks) || presents
		}
	}
	if presents && len(claims) == 1 {
		if g, ok := s.line.Given(&claims[0]); ok {
			return []store.Grant{g}
		}
	}
	begun := time.Now()
	var grants []store.Grant
	if s.codec.coalesces() && s.acquires.Joins(claims) {
		grants = s.acquires.Do(ctx, s.acquiring.Of(0), claims)
	} else {
		job := s.codec.newClaiming(claims)
		s.sender.Spread(ctx, &s.acquiring, job)
		if s.codec.replicas > 0 {
			s.confirm(ctx, job, begun)
		}
		grants = job.grants
	}
	// Note how long the claim took: the place's turn will be as long. An answer
	// that did not come in time says nothing of how far away the server is.
	if (len(grants) == 1 || samePlace(claims, 0)) && (refused(&grants[0]) ||
		presents && grants[0].Status == store.StatusHeld) {
		s.line.Took(time.Since(begun))
	}
	if presents {
		s.answered(claims, grants)
	}
	return grants
}

// samePlace reports whether claim i and the next are of one place. If the later
// one is refused, the place stands in line, whatever became of the earlier one.
func samePlace(claims []store.Claim, i int) bool {
	return i >= 0 && i+1 < len(claims) && claims[i].Place != 0 &&
		claims[i].Place == claims[i+1].Place
}

// answered tells the line what became of claims. From then on it has the places
// that the server has in a line, or may have, and no others.
func (s *engine) answered(claims []store.Claim, grants []store.Grant) {
	for i := range claims {
		place, g := claims[i].Place, &grants[i]
		switch {
		case place == 0, samePlace(claims, i):
		case g.Status == store.StatusHeld:
			s.line.Leave(place)
		case refused(g):
			s.line.Refused(place, g.Status == store.StatusQueued)
		case g.Status != store.StatusUnknown, errors.Is(g.Err, store.ErrNotSent):
			s.line.Unranked(place)
		}
	}
}

func refused(g *store.Grant) bool {
	return g.Status == store.StatusTaken || g.Status == store.StatusQueued
}

// claiming is the job of an acquire: calls of the script for as many claims
// each as scriptRoom has room for. Neighbours that are alike share a call.
type claiming struct {
	codec  *codec
	claims []store.Claim
	grants []store.Grant
	starts []int // call i has claims[starts[i]:starts[i+1]]

	only struct { // for the usual one claim, without allocations of their own
		grants [1]store.Grant
		starts [2]int
		words  [3 + 11]string // keys and arguments
	}
}

func (c *codec) newClaiming(claims []store.Claim) *claiming {
	job := &claiming{codec: c, claims: claims}
	if job.grants, job.starts = job.only.grants[:], job.only.starts[:0]; len(claims) != 1 {
		job.grants = make([]store.Grant, len(claims))
		job.starts = make([]int, 0, len(claims)/c.perCall+2)
	}
	room := scriptRoom{prefix: c.prefix, perCall: c.perCall}
	for i := range claims {
		name := contract.Claimed(&claims[i])
		if !room.add(name) || !c.alike(&claims[i-1], &claims[i]) {
			job.starts = append(job.starts, i)
			room.begin(name)
		}
	}
	job.starts = append(job.starts, len(claims))
	return job
}

// alike reports whether two claims can share a call. Replicas confirm one at a
// time.
func (c *codec) alike(a, b *store.Claim) bool {
	return a.TTL == b.TTL && c.replicas == 0 && !givesWay(a) && !givesWay(b)
}

// givesWay reports whether a claim is that of a call that gives way to newer
// ones.
func givesWay(c *store.Claim) bool { return c.Newness != store.Newness{} }

func (job *claiming) Repeatable() bool  { return true }
func (job *claiming) Size() int         { return len(job.starts) - 1 }
func (job *claiming) Slot(i int) uint16 { return schema.SlotOf(job.claims[job.starts[i]].Name) }
func (job *claiming) Weight(i int) int  { return job.starts[i+1] - job.starts[i] }

func (job *claiming) Command(i int, whole bool) rueidis.Completed {
	c, part := job.codec, job.claims[job.starts[i]:job.starts[i+1]]
	n, first := len(part), &part[0]
	words := job.only.words[:]
	if len(job.claims) > 1 { // commands may be made by several goroutines
		words = make([]string, 5*n+6)
	}
	limits, line := first.Limit != 0, false
	keys, args := words[:n:n+2], words[n+2:n+2]
	args = append(args, c.ttls.of(first.TTL), c.fenceText, c.markOf(first.Name),
		c.lines.of(lineTerms{c.mode(), first.TTL}))
	for j := range part {
		if j > 0 && limits && part[j].Name == part[j-1].Name {
			keys[j] = keys[j-1]
		} else {
			keys[j] = schema.LeaseKey(c.prefix, contract.Claimed(&part[j]))
		}
		place := c.line.Text(part[j].Place)
		switch {
		case part[j].Place == 0:
		case place == "":
			place = "+"
		case c.cluster:
			line = true
		}
		args = append(args, part[j].Owner, place, c.holderText(part[j].Holder, part[j].Callers))
		if limits {
			args = append(args, strconv.Itoa(part[j].Limit))
		}
	}
	if limits && c.cluster {
		keys = append(keys, keys[0]+schema.HoldersSuffix)
	}
	if line {
		keys = append(keys, keys[0]+schema.LineSuffix)
	}
	if limits {
		return script.SlotsAcquire.Command(c.builder(), whole, keys, args...)
	}
	if givesWay(first) { // a call of its own: see alike
		if c.cluster {
			keys = append(keys, keys[0]+schema.BegunSuffix)
		}
		n := newnessText(first.Newness)
		args = append(args, n[0], n[1], n[2],
			schema.Decimal(begunTTL(first.Newness).Milliseconds()))
		return script.Begin.Command(c.builder(), whole, keys, args...)
	}
	return script.Acquire.Command(c.builder(), whole, keys, args...)
}

func (job *claiming) Read(i int, r rueidis.RedisResult) {
	from, to := job.starts[i], job.starts[i+1]
	claims, grants := job.claims[from:to], job.grants[from:to]
	reply, err := r.ToMessage()
	if err != nil {
		for j := range grants {
			grants[j] = job.codec.refusedOrLost(opOf(&claims[j]), err)
		}
		return
	}
	if len(claims) == 1 {
		grants[0] = job.codec.readOne(reply, &claims[0])
		return
	}
	replies, err := reply.ToArray()
	for j := range grants {
		if err != nil || len(replies) != len(grants) {
			grants[j].Err = refusal.Unreadable("acquire")
			continue
		}
		grants[j] = job.codec.readOne(replies[j], &claims[j])
	}
}

func opOf(c *store.Claim) string {
	if c.Limit != 0 {
		return refusal.OpSlot
	}
	return "acquire"
}

// noGrant is the answer to a claim that the server has not answered.
func (c *codec) noGrant(err error) store.Grant { return c.refusedOrLost("acquire", err) }

func (c *codec) refusedOrLost(op string, err error) store.Grant {
	wrapped := c.errors.Wrap(op, err)
	if errors.Is(err, wire.ErrNotSent) {
		wrapped = fmt.Errorf("%w: %w", store.ErrNotSent, wrapped)
	}
	return store.Grant{Err: wrapped}
}

// readOne reads what became of one claim.
func (c *codec) readOne(reply rueidis.RedisMessage, claim *store.Claim) store.Grant {
	if err := reply.Error(); err != nil {
		return store.Grant{Err: c.errors.Wrap(opOf(claim), err)}
	}
	if n, err := reply.ToInt64(); err == nil && n == 0 && givesWay(claim) {
		return store.Grant{Status: store.StatusReplaced}
	}
	read := readGrant
	if claim.Limit != 0 {
		read = readSlot
	}
	g, since, ok := read(reply, 0)
	if !ok {
		g.Err = refusal.Unreadable("acquire")
	}
	if since != 0 {
		g.Status = store.StatusQueued
		c.line.Came(claim.Place, since)
	}
	g.Broken = refused(&g) && isBroken(reply, claim.Owner)
	return g
}

// isBroken reports whether the value in a refusal is that of the owner's lease,
// which was broken.
func isBroken(reply rueidis.RedisMessage, owner string) bool {
	parts, _ := reply.ToArray()
	if len(parts) == 0 || owner == "" {
		return false
	}
	value, _ := parts[0].ToString()
	return strings.HasPrefix(value, "!"+owner[1:]+schema.Separator)
}

// newAcquires returns what coalesces the acquires of callers who meet.
func newAcquires(c *codec, s *wire.Sender) *wire.Coalescer[store.Claim, store.Grant] {
	return &wire.Coalescer[store.Claim, store.Grant]{
		Alike: func(a, b *store.Claim) bool {
			return c.alike(a, b) && (a.Limit == 0) == (b.Limit == 0)
		},
		Alone: func(ctx context.Context, claims []store.Claim) []store.Grant {
			return c.claimAlone(ctx, s, claims)
		},
		Together: func(ctx context.Context, claims []store.Claim) []store.Grant {
			job := c.newClaiming(claims)
			if !s.CallTogether(ctx, job) {
				return nil
			}
			return job.grants
		},
		Unknown: c.noGrant,
		Owner:   func(c *store.Claim) string { return c.Owner },
	}
}

// Propose implements [contract.Proposer]. A token above 2^53-1, which the
// server can't compare, is refused with an error.
func (s *engine) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	c, grants := s.codec, make([]store.Grant, len(proposals))
	todo := wire.Calls{N: len(proposals)}
	todo.SlotOf = func(i int) uint16 { return schema.SlotOf(proposals[i].Name) }
	todo.Build = func(i int, whole bool) rueidis.Completed {
		p := &proposals[i]
		keys := []string{schema.LockKey(c.prefix, p.Name)}
		return script.Propose.Command(c.builder(), whole, keys,
			c.ttls.of(p.TTL), c.fenceText, c.markOf(p.Name), c.lines.of(lineTerms{c.mode(), p.TTL}),
			p.Owner, "", c.holderText(p.Holder, p.Callers), schema.Decimal(p.Fence),
			strconv.Itoa(p.Reserve))
	}
	todo.Take = func(i int, r rueidis.RedisResult) {
		reply, err := r.ToMessage()
		if err == nil {
			err = reply.Error()
		}
		if err != nil {
			grants[i] = c.noGrant(err)
			return
		}
		var ok bool
		if grants[i], _, ok = readGrant(reply, proposals[i].Fence); !ok {
			grants[i] = store.Grant{Err: refusal.Unreadable("acquire")}
		}
	}
	s.sender.SpreadCalls(ctx, &s.acquiring, todo)
	return grants
}

// nativeName is how long a name may be whose lock is claimed natively: see
// wire.Sender.Pair.
const nativeName = 256

// newRule says when claims are native: never by a client whose connections are
// not counted.
func newRule(client rueidis.Client) *native.Rule {
	r := &native.Rule{Quiet: func() bool { return wire.Quiet(native.QuietFor) }}
	if !wire.Counts(client) {
		r.Refused(true)
	}
	return r
}

// claimAlone claims for one caller: by the script, unless native commands do.
func (c *codec) claimAlone(
	ctx context.Context, s *wire.Sender, claims []store.Claim,
) []store.Grant {
	first := &claims[0]
	mayBe := len(claims) == 1 && first.Limit == 0 && !c.cluster && c.replicas == 0
	if mayBe && needsNoScript(first) {
		if grants := c.claimNatively(ctx, s, first); grants != nil {
			return grants
		}
	}
	job, sent := c.newClaiming(claims), time.Now()
	s.Call(ctx, job, true)
	if g := &job.grants[0]; mayBe && g.Status == store.StatusHeld {
		c.native.Script(g.Fence, sent, time.Now())
	}
	return job.grants
}

// needsNoScript reports whether two commands do for a claim of a lock, if that
// is free.
func needsNoScript(c *store.Claim) bool {
	return c.Place == 0 && !c.Manual && !givesWay(c) && len(c.Name) <= nativeName &&
		len(c.Owner) == store.OwnerLen
}

// nativeJob is what a native claim needs, in one allocation.
type nativeJob struct {
	grants [1]store.Grant
	room   [4]rueidis.Completed
	text   [256]byte // its key and value
}

// claimNatively claims a lock without a script: see package native. After nil
// the script decides, for the same owner: of what has come of this it sees its
// own.
func (c *codec) claimNatively(
	ctx context.Context, s *wire.Sender, claim *store.Claim,
) []store.Grant {
	clock, ok := c.native.May(time.Now())
	if !ok {
		return nil
	}
	job := new(nativeJob)
	key := schema.AppendLockKey(job.text[:0], c.prefix, claim.Name)
	text := schema.Text(schema.AppendYoung(key, claim.Owner, clock,
		c.holderText(claim.Holder, claim.Callers)))
	set := c.builder().Arbitrary("SET").Keys(text[:len(key)]).
		Args(text[len(key):], "NX", "PX", c.ttls.of(claim.TTL)).Build()
	got, token, lost, err := s.Pair(ctx, &job.room, set, c.builder().Incr().Key(c.mark).Build())
	if lost { // a script's answer would hide that SET may be carried out yet
		job.grants[0] = c.noGrant(err)
		return job.grants[:]
	} else if err == nil {
		err = got.Error()
	}
	if err != nil {
		c.native.Refused(c.isFinal(err))
		return nil
	}
	fence, err := token.ToInt64()
	if err != nil {
		c.native.Refused(c.isFinal(err))
		return nil
	}
	if fence > schema.MaxExact || !c.native.Granted(fence, time.Now()) {
		return nil
	}
	job.grants[0] = store.Grant{Status: store.StatusHeld, Fence: fence}
	return job.grants[:]
}

// isFinal reports whether the server will refuse native claims again: it knows
// no such command, or does not let us, or tokens are given there, so that the
// mark is no number.
func (c *codec) isFinal(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && !answer.IsNil() && (c.errors.Definite(answer.Error()) ||
		strings.Contains(answer.Error(), "not an integer"))
}
