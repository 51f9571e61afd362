package redisstore

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// codec writes requests as calls of scripts, and reads their replies.
// It sends nothing, and a reply that no script of ours gives is an
// error and never a grant. Its methods may be called concurrently.
type codec struct {
	builder   func() rueidis.Builder
	prefix    string
	fenceTTL  time.Duration
	fenceText string // fenceTTL in ms
	perCall   int    // names of one script, at most
	replicas  int    // that must confirm a grant
	waiters   *waiterSet
	errors    *errorReader

	shardArgs []string // last of renew.lua and release.lua on a cluster; else nil
	lineArgs  []string // last of release.lua, where waiters stand in line

	ttls    memo[time.Duration]
	holders memo[renewer.Holder]
}

// newCodec returns a codec for one server, or for a cluster.
func newCodec(
	client rueidis.Client, c settings, cluster bool, waiters *waiterSet, errors *errorReader,
) *codec {
	fenceText := decimal(c.fenceTTL.Milliseconds())
	all := &codec{
		builder: client.B, prefix: c.prefix, fenceTTL: c.fenceTTL, fenceText: fenceText,
		perCall: maxKeys, replicas: c.replicas, waiters: waiters, errors: errors,
		lineArgs: []string{withLines, fenceText, decimal(turnTime.Milliseconds())},
		ttls: memo[time.Duration]{make: func(d time.Duration) string {
			return decimal(d.Milliseconds())
		}},
		holders: memo[renewer.Holder]{make: encodeHolder},
	}
	if cluster {
		// A script's keys must share a slot there. Locks that happen to do so are few,
		// and a script with several of them could not run while the slot is moving.
		all.perCall, all.shardArgs = 1, []string{toShard}
	}
	return all
}

// room returns an empty call of a script.
func (c *codec) room() scriptRoom { return scriptRoom{prefix: c.prefix, perCall: c.perCall} }

// coalesces reports whether callers who meet can share a command: not on a cluster, where their
// locks are in different slots, and not where replicas confirm each grant on a connection of its
// own.
func (c *codec) coalesces() bool { return c.perCall > 1 && c.replicas == 0 }

// holderText is encodeHolder's text with the trace.
func (c *codec) holderText(h renewer.Holder) string {
	trace := h.Trace
	h.Trace = ""
	text := c.holders.of(h)
	if trace == "" {
		return text
	}
	return text + separator + part(trace)
}
