package asking

import (
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// outageShards bounds what is kept. Shards that share an entry are down only if all of them are.
const outageShards = 64

// Outages are what is known of each shard. An error alone is no evidence that the store is down:
// under load a request runs out of time in this process, while others are answered. The store is
// down if requests fail and none is answered. All methods may be called concurrently.
type Outages struct {
	clock  *timing.Clock
	shards [outageShards]struct {
		answered atomic.Int64 // instant of the latest answer
		failed   atomic.Int64 // when the first request was sent that failed since then
		again    atomic.Int64 // when a request has last failed
	}
}

// NewOutages returns what knows of no failure yet.
func NewOutages(clock *timing.Clock) *Outages { return &Outages{clock: clock} }

// Book notes what became of a request to a shard that was sent at an instant.
func (o *Outages) Book(shard int, sent timing.Instant, answered bool) {
	s := &o.shards[uint(shard)%outageShards]
	last := s.answered.Load()
	switch {
	case answered:
		s.answered.Store(int64(o.clock.AtMost()))
		return
	case sent > timing.Instant(last) && s.failed.Load() <= last:
		s.failed.Store(int64(sent))
	}
	s.again.Store(int64(o.clock.AtMost()))
}

// Longest is Of the shard that has failed to answer for longest, of those that were asked in vain
// within a time: of the others it is not known whether they are back.
func (o *Outages) Longest(within time.Duration) (longest time.Duration) {
	now := o.clock.AtMost()
	for i := range o.shards {
		if now.Sub(timing.Instant(o.shards[i].again.Load())) < within {
			longest = max(longest, o.Of(i))
		}
	}
	return longest
}

// Of is for how long a shard has failed to answer: how long ago the first request was sent that
// failed with none answered since; 0 if there is none.
func (o *Outages) Of(shard int) time.Duration {
	s := &o.shards[uint(shard)%outageShards]
	if failed := s.failed.Load(); failed > s.answered.Load() {
		return o.clock.AtMost().Sub(timing.Instant(failed))
	}
	return 0
}
