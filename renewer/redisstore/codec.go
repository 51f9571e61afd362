package redisstore

import (
	"strconv"
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
