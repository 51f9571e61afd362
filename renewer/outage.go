package renewer

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// outageShards bounds what is kept. Shards that share an entry are down only if all of them are.
const outageShards = 64

// outages are what is known of each shard. An error alone is no evidence that the store is down:
// under load a request runs out of time in this process, while others are answered. The store is
// down if requests fail and none is answered. All methods may be called concurrently.
type outages struct {
	clock  *timing.Clock
	shards [outageShards]struct {
		answered atomic.Int64 // instant of the latest answer
		failed   atomic.Int64 // when the first request was sent that failed since then
	}
}

// book notes what became of a request to a shard that was sent at an instant.
func (o *outages) book(shard int, sent instant, answered bool) {
	s := &o.shards[uint(shard)%outageShards]
	switch last := s.answered.Load(); {
	case answered:
		s.answered.Store(int64(o.clock.AtMost()))
	case sent > instant(last) && s.failed.Load() <= last:
		s.failed.Store(int64(sent))
	}
}

// of is for how long a shard has failed to answer.
func (o *outages) of(shard int) time.Duration {
	s := &o.shards[uint(shard)%outageShards]
	if failed := s.failed.Load(); failed > s.answered.Load() {
		return o.clock.AtMost().Sub(instant(failed))
	}
	return 0
}

// isAnswer reports whether the store has answered: an error may come from a server that is up, too.
func isAnswer(status Status, err error) bool {
	return status != StatusUnknown || errors.Is(err, ErrRejected) || errors.Is(err, ErrOverloaded)
}
