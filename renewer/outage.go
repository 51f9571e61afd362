package renewer

import (
	"errors"
	"sync/atomic"
	"time"
)

// An error alone is no evidence that the store is down: under load a request runs out of time in
// this process, while others are answered. The store is down if requests fail and none is
// answered.

// outageShards bounds what is kept. Shards that share an entry are down only if all of them are.
const outageShards = 64

// outages are what is known of each shard.
type outages [outageShards]struct {
	answered atomic.Int64 // instant of the latest answer
	failed   atomic.Int64 // when the first request was sent that failed since then
}

// bookReply books what became of a request about a name, sent at an instant.
func (k *Keeper) bookReply(shard int, sent instant, answered bool) {
	s := &k.outages[uint(shard)%outageShards]
	switch last := s.answered.Load(); {
	case answered:
		s.answered.Store(int64(k.clock.AtMost()))
	case sent > instant(last) && s.failed.Load() <= last:
		s.failed.Store(int64(sent))
	}
}

// isAnswer reports whether the store has answered: an error may tell of a server that is up, too.
func isAnswer(status Status, err error) bool {
	return status != StatusUnknown || errors.Is(err, ErrRejected) || errors.Is(err, ErrOverloaded)
}

// Outage is for how long the store, or the shard of it that has the name, has failed to answer: how
// long ago the first request was sent that failed with none answered since. 0 if there is none: a
// request that ran out of time beside others that were answered tells of load, not of an outage. It
// asks nobody, and changes only as requests are made.
func (k *Keeper) Outage(name string) time.Duration {
	s := &k.outages[uint(k.shardOf(name))%outageShards]
	if failed := s.failed.Load(); failed > s.answered.Load() {
		return k.clock.AtMost().Sub(instant(failed))
	}
	return 0
}
