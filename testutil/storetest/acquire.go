package storetest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var acquireCases = []testCase{
	{"one of many gets a free name", oneOfMany},
	{"never two at once", neverTwo},
	{"a repeated claim is the same lease", repeatedClaim},
	{"a repeated claim renews", repeatedClaimRenews},
	{"a repeated claim never shortens", repeatedClaimNeverShortens},
	{"a refused caller learns of the holder", holderTold},
	{"a holder of odd bytes", oddHolder},
	{"a refusal does not wait", refusalAtOnce},
	{"a refused caller learns that there is no holder", foreignTold},
}

// foreignTold has a key that no owner has written, which no owner frees: a
// caller that is refused for it must not look for a holder.
func foreignTold(t *testing.T, s *suite) {
	g := s.acquire(t, "held", newOwner(), long)
	requireStatus(t, store.StatusHeld, g.Status)
	g = s.acquire(t, "held", newOwner(), long)
	assertStatus(t, store.StatusTaken, g.Status)
	assert.False(t, g.Foreign, "an owner has it")
	if s.Overwrite == nil || s.Blind {
		return
	}
	s.Overwrite("name")
	g = s.acquire(t, "name", newOwner(), long)
	assertStatus(t, store.StatusTaken, g.Status)
	assert.NotEqual(t, g.Foreign, g.Holder != (store.Holder{}), "either an owner has it, or none")
}

func oneOfMany(t *testing.T, s *suite) {
	const many = 32
	var held, taken atomic.Int32
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			switch s.acquire(t, "name", newOwner(), long).Status {
			case store.StatusHeld:
				held.Add(1)
			case store.StatusTaken:
				taken.Add(1)
			case store.StatusUnknown, store.StatusGone: // acquire has failed the test
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, held.Load(), "of %d callers", many)
	assert.EqualValues(t, many-1, taken.Load(), "of %d callers", many)
}

// neverTwo has many goroutines take turns, and looks for two inside, and for
// tokens out of order.
func neverTwo(t *testing.T, s *suite) {
	const many, turns = 32, 4
	var inside atomic.Int32
	// guarded by the lock under test; the race detector checks that too, inside
	// being the order
	var last int64
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			for range turns {
				owner := newOwner()
				var fence int64
				s.until(t, "the name gets free", func() bool {
					g := s.acquire(t, "name", owner, long)
					fence = g.Fence
					return g.Status == store.StatusHeld
				})
				assert.EqualValues(t, 1, inside.Add(1), "holders at once")
				assert.Greater(t, fence, last, "tokens rise in the order of the grants")
				last = fence
				inside.Add(-1)
				assertStatus(t, store.StatusHeld, s.release(t, "name", owner))
			}
		})
	}
	wg.Wait()
}

func repeatedClaim(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	fence := s.own(t, "name", a, long)
	for range 3 {
		assert.Equal(t, fence, s.own(t, "name", a, long), "the same fencing token")
		s.refused(t, "name", b)
	}
	assertStatus(t, store.StatusHeld, s.release(t, "name", a),
		"one release frees it, however often it was claimed")
	assert.Greater(t, s.obtain(t, "name", b), fence)
	s.refused(t, "name", a)
}

func repeatedClaimRenews(t *testing.T, s *suite) {
	a := newOwner()
	s.own(t, "name", a, s.short)
	s.own(t, "name", a, long)
	s.wait(t, s.short*3/2)
	assertStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
}

func repeatedClaimNeverShortens(t *testing.T, s *suite) {
	a := newOwner()
	s.own(t, "name", a, long)
	s.own(t, "name", a, time.Millisecond)
	s.wait(t, 50*time.Millisecond)
	assertStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
}

func holderTold(t *testing.T, s *suite) {
	if s.Blind {
		return
	}
	a, b := newOwner(), newOwner()
	holder := store.Holder{
		Node: "web-1", PID: 4711, Operation: "email:send",
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	before := time.Now()
	g := s.acquireAs(t, "name", a, long, holder)
	requireStatus(t, store.StatusHeld, g.Status)
	acquired := time.Since(before)

	const held = 150 * time.Millisecond
	for range 2 {
		g = s.refused(t, "name", b)
		assert.Equal(t, holder, g.Holder)
		assert.Positive(t, g.TTL, "TTL, how long it stays held")
		assert.LessOrEqual(t, g.TTL, long, "TTL, how long it stays held")
		s.wait(t, held)
	}
	g = s.refused(t, "name", b)
	assert.GreaterOrEqual(t, g.HeldFor, 2*held-s.slack, "HeldFor, how long it has been held")
	assert.LessOrEqual(t, g.TTL, long-2*held+s.slack, "TTL, how long it stays held")
	if s.Advance == nil {
		assert.LessOrEqual(t, g.HeldFor, time.Since(before)+s.slack)
		assert.GreaterOrEqual(t, g.TTL, long-time.Since(before)-acquired-s.slack)
	}
	heldFor := g.HeldFor

	renewed := time.Now()
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
	s.own(t, "name", a, long)
	g = s.refused(t, "name", b)
	assert.Equal(t, holder, g.Holder, "a renewal leaves the holder as it is")
	assert.GreaterOrEqual(t, g.HeldFor, heldFor, "a renewal does not start the count again")
	assert.Greater(t, g.TTL, long-held-time.Since(renewed), "and moves the end")
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	s.obtain(t, "name", b)
	assert.Equal(t, "node", s.refused(t, "name", a).Holder.Node,
		"the next holder is not taken for the last")
}

func oddHolder(t *testing.T, s *suite) {
	if s.Blind {
		return
	}
	holders := []store.Holder{
		{},
		{Node: "näme-日本"},
		{Node: "a b", Operation: "c d"},
		{Node: "a\nb", PID: 7, Operation: "c\td"},
		{Node: `"quoted" \back\`, PID: 1 << 30, Operation: `'x'`},
		{Node: "a|b:c,d;e/f=g{h}", PID: 2, Operation: "%00 %25 %d"},
		{Node: "nul\x00", PID: 3, Operation: "\x00\x01\x7f"},
		{Node: "latin\xe4\xff", PID: 4, Operation: "\xc3\x28"},
		{PID: 5},
		{Operation: "only"},
		{Trace: "nothing else"},
		{Node: "n", Trace: "odd\nlines\x00"},
	}
	for _, h := range holders {
		a := newOwner()
		requireStatus(t, store.StatusHeld, s.acquireAs(t, "name", a, long, h).Status)
		assert.Contains(t, []store.Holder{h, printable(h)},
			s.refused(t, "name", newOwner()).Holder)
		requireStatus(t, store.StatusHeld, s.release(t, "name", a), "%q", h)
	}
}

// printable is h without what can't be printed, which a store may drop.
func printable(h store.Holder) store.Holder {
	drop := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, s)
	}
	h.Node, h.Operation, h.Trace = drop(h.Node), drop(h.Operation), drop(h.Trace)
	return h
}

func refusalAtOnce(t *testing.T, s *suite) {
	s.own(t, "name", newOwner(), long)
	before := time.Now()
	s.refused(t, "name", newOwner())
	assert.Less(t, time.Since(before), callBy, "the holder's TTL is %v", long)
}
