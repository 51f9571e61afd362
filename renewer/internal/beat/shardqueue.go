package beat

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// Leases that come due this close together share a heartbeat: as long as is
	// needed to gather a good batch, within these bounds and a sixty-fourth of
	// an interval.
	gapLeast = 3 * time.Millisecond
	gapMost  = 50 * time.Millisecond
	// So many that what it costs to wake up, to send and to receive is little
	// beside the rest.
	batchGood = 80
	// The most leases in one heartbeat, as long as the store keeps up. A server
	// serves no other client while it reads what has arrived on one connection,
	// so all of it is to take half a millisecond or so. When more are due the
	// next follows after this time.
	batchMost = 100
	fullGap   = 700 * time.Microsecond
	// A batch that is late by this does not delay the next: an idle process
	// wakes up to a good millisecond late, and a million leases would have two
	// beats for three.
	lateMost = 2 * time.Millisecond
	// A heartbeat of fewer leases than this takes others along that would come
	// due within a quarter of an interval: more share what it costs to send and
	// to receive. Each keeps its rhythm, so they come due together again. Not
	// for a TTL after a heartbeat has failed: a lease that the store can't
	// answer for must not take others along again and again. For so long
	// heartbeats also gather for the least time.
	batchLeast = batchMost
)

// shardQueue is the leases of one shard that wait for their heartbeat, and the
// pace at which it sends. A store without shards has one.
type shardQueue[L any] struct {
	number   queueNumber
	due      *timing.Wheel[L]
	underWay int            // batches
	sent     timing.Instant // when the last was, or might have been in a crowd
	full     bool           // it left others behind that were due
	calm     timing.Instant // when the last failure is long enough ago
	gap      time.Duration  // between two batches
	gapMost  time.Duration
}

// queueNumber is a queue in fewer bytes than a pointer, of which
// every lease has one: n is the queue of shard n-1.
type queueNumber int16

const noQueue queueNumber = 0

func newShardQueue[L any](
	number queueNumber, heartbeat time.Duration, due *timing.Wheel[L],
) *shardQueue[L] {
	most := min(gapMost, heartbeat/64)
	return &shardQueue[L]{
		number: number, due: due, sent: -timing.Never, gap: min(gapLeast, most), gapMost: most,
	}
}

// depart notes that a batch is sent, which might have gone after a gap.
func (q *shardQueue[L]) depart(now timing.Instant, gap time.Duration) {
	if q.full {
		q.sent = max(q.sent.Add(gap), now.Add(-lateMost))
	} else {
		q.sent = now
	}
}

// trouble keeps the batches small until an instant, lest one lease spoil those
// of many.
func (q *shardQueue[L]) trouble(until timing.Instant) {
	q.calm, q.gap = until, min(gapLeast, q.gapMost)
}

// pace makes the gap longer after a small batch and shorter after a large one.
func (q *shardQueue[L]) pace(leases int) {
	if leases < batchGood {
		q.gap = min(q.gap*5/4, q.gapMost)
	} else {
		q.gap = min(max(q.gap*4/5, gapLeast), q.gapMost)
	}
}

// Batch is one heartbeat under way.
type Batch[L any] struct {
	// Sent is before it was queued: where the deadlines that it earns are
	// counted from.
	Sent   timing.Instant
	Lag    time.Duration // of its first lease
	Late   bool          // its leases were planned again, and it was not answered yet
	Leases []L
	Holds  []store.Hold // one for each
	queue  *shardQueue[L]

	// Context is what observers are told by, if there are any; nil before, and
	// once they were told.
	Context context.Context //nolint:containedctx // the sender's, for when it is late
}

func (b *Batch[L]) add(l L, hold store.Hold) {
	b.Leases = append(b.Leases, l)
	b.Holds = append(b.Holds, hold)
}

// Shard is where it was sent.
func (b *Batch[L]) Shard() int { return int(b.queue.number - 1) }

// clear empties a batch for the next, and reports whether it is fit to be kept:
// a large one was needed in a crowd only.
func (b *Batch[L]) clear() bool {
	if cap(b.Leases) > 2*batchMost {
		return false
	}
	clear(b.Leases) // not to keep leases alive
	clear(b.Holds)
	b.Leases, b.Holds, b.Late, b.Context = b.Leases[:0], b.Holds[:0], false, nil
	return true
}
