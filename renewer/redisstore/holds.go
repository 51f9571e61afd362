package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Renew implements [store.Store]. It passes through no window: a heartbeat
// waits for no crowd.
func (s *engine) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	job := s.codec.newHolding(holds, false)
	s.sender.Spread(ctx, nil, job)
	return job.answers
}

// Release implements [store.Store].
func (s *engine) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	defer func() {
		for i := range holds {
			s.line.GiveUp(holds[i].Place)
		}
	}()
	for i := range holds { // lest the release overtake a claim that it undoes
		if err := s.acquires.Settle(ctx, holds[i].Owner); err != nil {
			err = s.codec.errors.Wrap("release", err)
			return slices.Repeat([]store.Answer{{Err: err}}, len(holds))
		}
	}
	if s.codec.coalesces() && s.releases.Joins(holds) {
		return s.releases.Do(ctx, s.releasing.Of(0), holds)
	}
	job := s.codec.newHolding(holds, true)
	s.sender.Spread(ctx, &s.releasing, job)
	return job.answers
}

// checkTurn has the server pass a lease on if it has lapsed, or slots if their
// turn has. It is the release of a lease that no owner has.
func (s *engine) checkTurn(name contract.Name) {
	ctx, cancel := context.WithTimeout(s.life, s.settle)
	defer cancel()
	hold := store.Hold{Name: name.Text, Limit: name.Limit, Owner: noOwner}
	s.sender.Spread(ctx, nil, s.codec.newHolding([]store.Hold{hold}, true))
}

// noOwner is as long as an owner token, and none.
var noOwner = strings.Repeat(" ", store.OwnerLen)

// holding is the job of a renewal or a release: calls of a script for as many
// leases each as scriptRoom has room for. Neighbours of one time share a call.
type holding struct {
	codec     *codec
	releases  bool // or else it renews
	frees     bool // one lease for which nobody waits, by free.lua
	waitedFor bool // somebody does, or it is not its owner's any more, so that it has not
	holds     []store.Hold
	answers   []store.Answer
	starts    []int // call i has holds[starts[i]:starts[i+1]]

	only struct { // for the usual one hold, without allocations of their own
		answers [1]store.Answer
		starts  [2]int
	}
}

func (c *codec) newHolding(holds []store.Hold, releases bool) *holding {
	h := &holding{codec: c, releases: releases, holds: holds}
	if h.answers, h.starts = h.only.answers[:], h.only.starts[:0]; len(holds) != 1 {
		h.answers = make([]store.Answer, len(holds))
		h.starts = make([]int, 0, len(holds)/c.perCall+2)
	}
	room := scriptRoom{prefix: c.prefix, perCall: c.perCall}
	for i := range holds {
		name := contract.Held(&holds[i])
		if !room.add(name) || h.timeOf(&holds[i-1]) != h.timeOf(&holds[i]) {
			h.starts = append(h.starts, i)
			room.begin(name)
		}
	}
	h.starts = append(h.starts, len(holds))
	return h
}

// timeOf is for how long a hold is to live on, or to be kept.
func (h *holding) timeOf(hold *store.Hold) time.Duration {
	if h.releases {
		return hold.Keep
	}
	return hold.TTL
}

// scriptFor is the script that does it for locks, or for limits.
func (h *holding) scriptFor(limits bool) *script.Script {
	switch {
	case h.frees:
		return &script.Free
	case limits && h.releases:
		return &script.SlotsRelease
	case limits:
		return &script.SlotsRenew
	case h.releases:
		return &script.Release
	default:
		return &script.Renew
	}
}

// op is what is asked, in errors.
func (h *holding) op() string {
	if h.releases {
		return "release"
	}
	return "renew"
}

func (h *holding) Repeatable() bool  { return !h.releases }
func (h *holding) Size() int         { return len(h.starts) - 1 }
func (h *holding) Slot(i int) uint16 { return schema.SlotOf(h.holds[h.starts[i]].Name) }
func (h *holding) Weight(i int) int  { return h.starts[i+1] - h.starts[i] }

func (h *holding) Command(i int, whole bool) rueidis.Completed {
	part := h.holds[h.starts[i]:h.starts[i+1]]
	c, limits := h.codec, part[0].Limit
	lasts := "0"
	if d := h.timeOf(&part[0]); d != 0 {
		lasts = c.ttls.of(d)
	}
	var keys schema.KeyWriter // of each command: the client may read the one before yet
	keys.Begin(c.prefix, part)
	call, name := h.scriptFor(limits).Called(whole)
	n := len(part)
	if limits && c.cluster {
		n++
	}
	// Written piece by piece, as a heartbeat of many leases would fill a slice
	// of words for each call. The first key is as good as all to choose the
	// server by.
	words := c.builder().Arbitrary(call, name, strconv.Itoa(n)).Keys(keys.Next())
	if h.frees {
		return words.Args(part[0].Owner).Build()
	}
	for range part[1:] {
		words = words.Args(keys.Next())
	}
	if n > len(part) {
		first := schema.LeaseKey(c.prefix, contract.Held(&part[0]))
		words = words.Args(first + schema.HoldersSuffix)
	}
	words = words.Args(lasts)
	if h.releases {
		words = words.Args(c.freeText(part[0].Name))
	}
	for j := range part {
		text := part[j].Owner
		if h.releases && part[j].Keep != 0 && h.young(&part[j]) {
			text += "=" + schema.Decimal(part[j].Fence)
		}
		if h.releases && part[j].Place != 0 { // the place that it gives up
			text += " " + c.line.Leaving(&part[j])
		}
		words = words.Args(text)
	}
	if !h.releases {
		words = words.Args(c.mode() + h.told(part))
	}
	return words.Build()
}

// young reports whether the value of a lease may be without its token yet.
func (h *holding) young(hold *store.Hold) bool {
	return hold.Fence != 0 && !hold.Limit && h.codec.native.Some()
}

// mayFree reports whether nobody is likely to wait for the one lease, so that
// free.lua will do.
func (h *holding) mayFree() bool {
	hold := &h.holds[0]
	return len(h.holds) == 1 && h.young(hold) && hold.Keep == 0 && hold.Place == 0 &&
		h.codec.native.Calm()
}

// told is what renew.lua is told of leases beside their owners: how many
// callers wait for each that tells, and its token.
func (h *holding) told(part []store.Hold) (text string) {
	for i := range part {
		hold := &part[i]
		if hold.Tells {
			text += " " + strconv.Itoa(i+1) + " " + callersText(hold.Callers)
		}
		if h.young(hold) {
			text += " " + strconv.Itoa(i+1) + "=" + schema.Decimal(hold.Fence)
		}
	}
	return text
}

func (h *holding) Read(i int, r rueidis.RedisResult) {
	part := h.answers[h.starts[i]:h.starts[i+1]]
	reply, err := r.ToMessage()
	if err != nil {
		err = h.codec.errors.Wrap(h.op(), err)
	} else if n, freed := reply.ToInt64(); h.frees && freed == nil {
		if h.waitedFor = n != 1; !h.waitedFor {
			part[0].Status = store.StatusHeld
		}
	} else if turns, ok := readAnswers(reply, part); !ok {
		err = refusal.Unreadable(h.op())
	} else {
		for j, turn := range turns {
			h.codec.line.Gave(contract.Held(&h.holds[h.starts[i]+j]), turn)
		}
	}
	for j := range part {
		part[j].Err = err
	}
}

// newReleases returns what coalesces the releases of callers who meet.
func newReleases(c *codec, s *wire.Sender) *wire.Coalescer[store.Hold, store.Answer] {
	return &wire.Coalescer[store.Hold, store.Answer]{
		Alike: func(a, b *store.Hold) bool {
			return a.Keep == b.Keep && a.Limit == b.Limit
		},
		Alone: func(ctx context.Context, holds []store.Hold) []store.Answer {
			job := c.newHolding(holds, true)
			job.frees = job.mayFree()
			s.Call(ctx, job, true)
			if job.waitedFor {
				c.native.Refused(false)
				job.frees = false
				s.Call(ctx, job, true)
			}
			return job.answers
		},
		Together: func(ctx context.Context, holds []store.Hold) []store.Answer {
			job := c.newHolding(holds, true)
			if !s.CallTogether(ctx, job) {
				return nil
			}
			return job.answers
		},
		Unknown: func(err error) store.Answer {
			return store.Answer{Err: c.errors.Wrap("release", err)}
		},
	}
}
