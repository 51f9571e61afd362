package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// holding is the job of a renewal or a release: calls of a script for as many leases each as
// scriptRoom has room for. Neighbours of one time share a call.
type holding struct {
	codec   *codec
	op      string
	script  *script.Script
	timeOf  func(*store.Hold) time.Duration
	holds   []store.Hold
	answers []store.Answer
	starts  []int // call i has holds[starts[i]:starts[i+1]]

	only struct { // for the usual one hold, without allocations of their own
		answers [1]store.Answer
		starts  [2]int
	}
}

// newRenewing is the job of a renewal.
func (c *codec) newRenewing(holds []store.Hold) *holding {
	return c.newHolding("renew", &script.Renew, holds, func(h *store.Hold) time.Duration {
		return h.TTL
	})
}

// newReleasing is the job of a release.
func (c *codec) newReleasing(holds []store.Hold) *holding {
	return c.newHolding("release", &script.Release, holds, func(h *store.Hold) time.Duration {
		return h.Keep
	})
}

func (c *codec) newHolding(
	op string, do *script.Script, holds []store.Hold, timeOf func(*store.Hold) time.Duration,
) *holding {
	h := &holding{codec: c, op: op, script: do, timeOf: timeOf, holds: holds}
	if h.answers, h.starts = h.only.answers[:], h.only.starts[:0]; len(holds) != 1 {
		h.answers = make([]store.Answer, len(holds))
		h.starts = make([]int, 0, len(holds)/c.perCall+2)
	}
	h.divide()
	return h
}

func (h *holding) divide() {
	room := h.codec.room()
	for i := range h.holds {
		name := contract.Held(&h.holds[i])
		if !room.add(name) || h.timeOf(&h.holds[i-1]) != h.timeOf(&h.holds[i]) {
			h.starts = append(h.starts, i)
			room.begin(name)
		}
	}
	h.starts = append(h.starts, len(h.holds))
}

func (h *holding) Repeatable() bool  { return h.script == &script.Renew }
func (h *holding) Size() int         { return len(h.starts) - 1 }
func (h *holding) Slot(i int) uint16 { return schema.SlotOf(h.holds[h.starts[i]].Name) }
func (h *holding) Weight(i int) int  { return h.starts[i+1] - h.starts[i] }

func (h *holding) Command(i int, whole bool) rueidis.Completed {
	part := h.holds[h.starts[i]:h.starts[i+1]]
	c, releases := h.codec, h.script == &script.Release
	lasts := "0"
	if d := h.timeOf(&part[0]); d != 0 {
		lasts = c.ttls.of(d)
	}
	var keys schema.KeyWriter
	keys.Begin(c.prefix, part)
	call, name := h.script.Called(whole)
	n, limits := len(part), part[0].Limit
	if limits {
		call, name = limitScript(h.script).Called(whole)
	}
	if limits && c.cluster {
		n++
	}
	// Written piece by piece, as a heartbeat of many leases would fill a slice of words for each
	// call. The first key is as good as all to choose the server by.
	words := c.builder().Arbitrary(call, name, strconv.Itoa(n)).Keys(keys.Next())
	for range part[1:] {
		words = words.Args(keys.Next())
	}
	if n > len(part) {
		first := schema.LeaseKey(c.prefix, contract.Held(&part[0]))
		words = words.Args(first + schema.HoldersSuffix)
	}
	words = words.Args(lasts)
	if releases {
		words = words.Args(c.frees.of(c.mode()))
	}
	for j := range part {
		words = words.Args(h.ownerOf(&part[j], releases))
	}
	if !releases {
		words = words.Args(c.mode() + callersOf(part))
	}
	return words.Build()
}

// limitScript is the script that does for limits what another does for locks.
func limitScript(of *script.Script) *script.Script {
	if of == &script.Renew {
		return &script.SlotsRenew
	}
	return &script.SlotsRelease
}

// callersOf says how many callers wait for each lease that tells: see callers.lua; "" if none does.
func callersOf(part []store.Hold) (text string) {
	for i := range part {
		if h := &part[i]; h.Tells {
			text += " " + strconv.Itoa(i+1) + " " + callersText(h.Callers)
		}
	}
	return text
}

// ownerOf is the owner token of a hold, and, to a release, the place that it gives up.
func (h *holding) ownerOf(hold *store.Hold, releases bool) string {
	text := hold.Owner
	if releases && hold.Place != 0 {
		text += " " + strconv.FormatUint(hold.Place, 10)
	}
	return text
}

func (h *holding) Read(i int, r rueidis.RedisResult) {
	part := h.answers[h.starts[i]:h.starts[i+1]]
	reply, err := r.ToMessage()
	if err != nil {
		err = h.codec.errors.Wrap(h.op, err)
	} else if turns, ok := readAnswers(reply, part); !ok {
		err = refusal.Unreadable(h.op)
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
			job := c.newReleasing(holds)
			s.Call(ctx, job, true)
			return job.answers
		},
		Together: func(ctx context.Context, holds []store.Hold) []store.Answer {
			job := c.newReleasing(holds)
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
