package redisstore

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/native"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// codec writes requests as calls of scripts, and reads their replies.
// It sends nothing, and a reply that no script of ours gives is an
// error and never a grant. Its methods may be called concurrently.
type codec struct {
	builder   func() rueidis.Builder
	prefix    string
	fenceText string // FenceTTL in ms
	perCall   int    // names of one script, at most
	replicas  int    // that must confirm a grant
	line      *line.Line
	errors    *refusal.Reader
	cluster   bool
	mark      string // the key of the mark of a single server
	native    *native.Rule

	ttls    memo[time.Duration]
	holders memo[store.Holder]
	lines   memo[lineTerms]
	frees   memo[freeTerms]
}

// leastLine is how long a line of places lives at least when none of them asks.
const leastLine = time.Minute

// lineTTL is how long a line lives: waiters ask anew when a lease
// should have lapsed, and every few seconds.
func lineTTL(ttl time.Duration) string {
	return schema.Decimal(max(2*ttl, leastLine).Milliseconds())
}

// lineTerms are what acquire.lua is told of the lines of waiters: the mode, and
// the TTL of the leases, which theirs depends on.
type lineTerms struct {
	mode string
	ttl  time.Duration
}

// freeTerms are what release.lua is told of lines, and of the mark of a lock.
type freeTerms struct{ mode, mark string }

func (c *codec) freeText(name string) string {
	return c.frees.of(freeTerms{c.mode(), c.markOf(name)})
}

// newCodec returns a codec for one server, or for a cluster.
func newCodec(
	client rueidis.Client, c settings, cluster bool, places *line.Line,
	errors *refusal.Reader,
) *codec {
	all := &codec{
		builder: client.B, prefix: c.prefix, fenceText: schema.Decimal(c.fenceTTL.Milliseconds()),
		perCall: maxKeys, replicas: c.replicas, line: places, errors: errors,
		cluster: cluster, mark: schema.MarkKey(c.prefix, schema.NoName), native: newRule(client),
		ttls: memo[time.Duration]{make: func(d time.Duration) string {
			return schema.Decimal(d.Milliseconds())
		}},
		holders: memo[store.Holder]{make: schema.EncodeHolder},
	}
	all.lines.make = func(t lineTerms) string {
		return t.mode + " " + lineTTL(t.ttl) + " " + places.ID()
	}
	all.frees.make = func(t freeTerms) string {
		return t.mode + " " + places.ID() + " " + all.fenceText + " " + t.mark
	}
	if cluster {
		// A script's keys must share a slot there. Locks that happen to do so
		// are few, and a script with several of them could not run while the
		// slot is moving.
		all.perCall = 1
	}
	return all
}

// mode is what tell.lua calls it: whether there are lines of waiters, and a
// cluster.
func (c *codec) mode() string {
	switch {
	case c.cluster:
		return script.ModeShard
	case c.line.Able():
		return script.ModeLine
	default:
		return ""
	}
}

// markOf is the key of the mark that tokens of a lock rise above.
func (c *codec) markOf(name string) string {
	if c.cluster {
		return schema.MarkKey(c.prefix, topology.TagOf(schema.SlotOf(name)))
	}
	return c.mark
}

// coalesces reports whether callers who meet can share a command: not on a
// cluster, where their locks are in different slots, and not where replicas
// confirm each grant on a connection of its own.
func (c *codec) coalesces() bool { return c.perCall > 1 && c.replicas == 0 }

// holderText is schema.EncodeHolder's text with the trace, and how many callers
// wait there.
func (c *codec) holderText(h store.Holder, callers int) string {
	text := c.faceText(h)
	if h.Trace != "" || callers > 0 {
		text += schema.Separator + schema.Part(h.Trace)
	}
	if callers > 0 {
		text += schema.Separator + callersText(callers)
	}
	return text
}

func callersText(n int) string { return strconv.Itoa(max(0, min(n, schema.MaxCallers))) }

// faceText is schema.EncodeHolder's text.
func (c *codec) faceText(h store.Holder) string {
	h.Trace = ""
	return c.holders.of(h)
}

// These bound one script, so that none keeps the server from others for a
// millisecond.
const (
	// maxKeys leases take about 0.2 ms.
	maxKeys = 100
	// maxKeyBytes is what the keys of maxKeys leases may have together, beyond
	// which there are fewer in a script: a hundred names of 512 bytes that all
	// need escaping took 2.4 ms.
	maxKeyBytes = 16 << 10
)

// scriptRoom counts what is in a call of a script: at most perCall
// names, and fewer if they are long. At first there is no call.
type scriptRoom struct {
	prefix      string
	perCall     int
	names, size int
	limits      bool // they are limits, for which there are scripts of their own
	last        contract.Name
}

// add adds a name to the call, or reports that there is no room for it. A limit
// may come again, on a cluster too: its keys are the same.
func (r *scriptRoom) add(name contract.Name) bool {
	again := r.limits && name == r.last
	if r.names == 0 || r.names == maxKeys || r.names >= r.perCall && !again {
		return false
	}
	r.last = name
	r.names++
	r.size += schema.KeySize(r.prefix, name)
	return r.size <= maxKeyBytes && name.Limit == r.limits
}

// begin begins a call with a name.
func (r *scriptRoom) begin(name contract.Name) {
	r.names, r.size, r.limits = 1, schema.KeySize(r.prefix, name), name.Limit
	r.last = name
}

// memo remembers the last text that was made of a value, since the next one is
// nearly always of the same value. Its make must be set. It may be used
// concurrently.
type memo[K comparable] struct {
	make func(K) string
	last atomic.Pointer[remembered[K]]
}

type remembered[K comparable] struct {
	key  K
	text string
}

func (m *memo[K]) of(key K) string {
	if last := m.last.Load(); last != nil && last.key == key {
		return last.text
	}
	text := m.make(key)
	m.last.Store(&remembered[K]{key, text})
	return text
}

// Replies come from a server that we do not run. One that our script can't have
// given is StatusUnknown, with an error: it is never taken for a grant.

// readGrant reads the reply of acquire.lua, or of propose.lua to a token that
// was proposed, 0 for none. since is when its place came, in us; 0 if it has
// none.
func readGrant(
	reply rueidis.RedisMessage, proposed int64,
) (g store.Grant, since int64, ok bool) {
	if reply.IsInt64() {
		g, ok = readFence(reply, proposed)
		return g, 0, ok
	}
	g, since, ok = readParts(reply, proposed)
	if !ok {
		return store.Grant{}, 0, false
	}
	return g, since, true
}

// readParts reads a reply of several parts.
func readParts(
	reply rueidis.RedisMessage, proposed int64,
) (g store.Grant, since int64, ok bool) {
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 2 {
		n, err := parts[1].ToInt64()
		if g, ok = readFence(parts[0], proposed); !ok || err != nil || n < 0 ||
			n > store.MaxReserved || g.Fence > schema.MaxExact-n {
			return g, 0, false
		}
		g.Reserved = int(n)
		return g, 0, true
	}
	if err == nil && len(parts) == 1 {
		counter, err := parts[0].ToInt64()
		if err != nil || proposed == 0 || counter < proposed || counter > schema.MaxExact {
			return g, 0, false
		}
		return store.Grant{Status: store.StatusBehind, Fence: counter}, 0, true
	}
	if err != nil || len(parts) < 3 || len(parts) > 4 || !parts[0].IsString() {
		return g, 0, false
	}
	if len(parts) == 4 {
		since, err = parts[3].ToInt64()
		if err != nil || since < 1 || since > schema.MaxExact {
			return g, 0, false
		}
	}
	value, err0 := parts[0].ToString()
	left, err1 := parts[1].ToInt64()
	now, err2 := parts[2].ToInt64()
	if err0 != nil || err1 != nil || err2 != nil {
		return g, 0, false
	}
	holder, begun := schema.DecodeValue(value)
	g = store.Grant{
		Status: store.StatusTaken, Holder: holder, HeldFor: schema.Elapsed(begun, now),
		TTL: schema.Millis(left), Foreign: begun == 0,
	}
	return g, since, true
}

// readSlot reads the reply of slots_acquire.lua, as readGrant does. No slot's
// token is proposed.
func readSlot(reply rueidis.RedisMessage, _ int64) (g store.Grant, since int64, ok bool) {
	if reply.IsInt64() {
		g, ok = readFence(reply, 0)
		return g, 0, ok
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 5 || !parts[0].IsString() {
		return g, 0, false
	}
	var numbers [4]int64 // ms, now, since, held
	for i := range numbers {
		numbers[i], err = parts[i+1].ToInt64()
		if err != nil || numbers[i] < 0 || numbers[i] > schema.MaxExact {
			return g, 0, false
		}
	}
	value, err := parts[0].ToString()
	if err != nil || numbers[3] > math.MaxInt32 {
		return g, 0, false
	}
	holder, begun := schema.DecodeValue(value)
	return store.Grant{
		Status: store.StatusTaken, Holder: holder, HeldFor: schema.Elapsed(begun, numbers[1]),
		TTL: schema.Millis(numbers[0]), Held: int(numbers[3]),
	}, numbers[2], true
}

// readFence reads the token of a grant.
func readFence(reply rueidis.RedisMessage, proposed int64) (g store.Grant, ok bool) {
	fence, err := reply.ToInt64()
	if err != nil || fence < 1 || fence > schema.MaxExact || proposed != 0 && fence != proposed {
		return g, false
	}
	return store.Grant{Status: store.StatusHeld, Fence: fence}, true
}

// readAnswers reads the reply of renew.lua or release.lua into answers, one a
// key: the positions of the exceptions, in order, with what has the key if it
// is not gone; and those of leases that were granted on, or slots that are
// kept, which it returns with for how long. If it returns false, answers is as
// it was.
func readAnswers(
	reply rueidis.RedisMessage, answers []store.Answer,
) (turns map[int]time.Duration, ok bool) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) > 2*len(answers) {
		return nil, false
	}
	exceptions, rest, ok := readExceptions(parts, len(answers))
	if !ok {
		return nil, false
	}
	for i := range rest {
		text, err := rest[i].ToString()
		position, turn, ok := readTurn(text)
		if err != nil || !ok || position >= len(answers) {
			return nil, false
		}
		if turns == nil {
			turns = make(map[int]time.Duration, 1)
		}
		turns[position] = turn
	}
	for i := range answers {
		answers[i].Status = store.StatusHeld
	}
	for _, e := range exceptions {
		a := &answers[e.position]
		if a.Status = e.status; e.status == store.StatusTaken {
			readTaker(a, e.value)
		}
	}
	return turns, true
}

// exception is a key that is not its owner's any more.
type exception struct {
	position int
	status   store.Status
	value    string // of the key, when StatusTaken
}

// readExceptions reads those that a reply about n keys begins with, and returns
// the rest of it.
func readExceptions(
	parts []rueidis.RedisMessage, n int,
) (exceptions []exception, rest []rueidis.RedisMessage, ok bool) {
	last := int64(0)
	for len(parts) > 0 && parts[0].IsInt64() {
		position, _ := parts[0].ToInt64()
		parts = parts[1:]
		e := exception{status: store.StatusGone}
		if position > 0 {
			if len(parts) == 0 || !parts[0].IsString() {
				return nil, nil, false
			}
			e.status = store.StatusTaken
			e.value, _ = parts[0].ToString()
			parts = parts[1:]
		} else {
			position = -position // of the smallest integer this is negative, and refused below
		}
		if position <= last || position > int64(n) {
			return nil, nil, false
		}
		last, e.position = position, int(position)-1
		exceptions = append(exceptions, e)
	}
	return exceptions, parts, true
}

// readTurn reads "POSITION TURN", the first counted from 1, the other in ms.
func readTurn(text string) (position int, turn time.Duration, ok bool) {
	first, second, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(first, 10, 16)
	ms, err2 := strconv.ParseUint(second, 10, 31)
	if err != nil || err2 != nil || n == 0 {
		return 0, 0, false
	}
	return int(n) - 1, time.Duration(ms) * time.Millisecond, true
}

// readTaker says, in the answer for a lease that is not its owner's any more,
// what has its key, or that it was broken.
func readTaker(a *store.Answer, value string) {
	if a.Broken = schema.ReadBroken(value); a.Broken != nil {
		if !a.Broken.Force {
			a.Status = store.StatusBroken
		}
		return
	}
	if holder, since := schema.DecodeValue(value); since != 0 {
		a.Holder = &holder
	} else {
		a.Foreign = true
	}
}
