package renewer

import (
	"math"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// batchesAtOnce is up to how many heartbeats of a shard are under way at once without further ado.
// When the store hangs they all wait. More then start at intervals of an eighth of RequestTimeout,
// each with everything that has come due: so no lease waits for another's answer, and no more than
// these plus about eight ever wait together.
const batchesAtOnce = 8

// heartbeats decides which leases are due for a heartbeat, when, and in which batches, those of
// each shard on their own: so a server that does not answer holds up no other's. It sends nothing.
//
// What it holds true: a lease that is planned is in the queue of one shard, until it is unplanned
// or goes into a batch, whose sender plans it again; and no heartbeat waits for another's answer.
//
// The sizes of batches suit a store that reads each lease of a heartbeat. For one whose heartbeat
// serves all leases of a session, [shardQueue] needs other sizes; the rest stays.
//
// Guarded by Keeper.mu, other than the loop.
type heartbeats struct {
	cfg    Config
	shards asking.Shards
	loop   *timing.Loop
	queues []*shardQueue // by shard
	spare  []*batch      // that have been completed, for their slices
	cohort cohort        // that new leases join
}

func newHeartbeats(cfg Config, shards asking.Shards, clock *timing.Clock) heartbeats {
	return heartbeats{
		cfg: cfg, shards: shards, loop: timing.NewLoop(clock), cohort: newCohort(cfg.Heartbeat),
	}
}

// plan enters a lease's next heartbeat, in place of the one planned before. It asks the store for
// the shard.
func (h *heartbeats) plan(l *Lease, at instant) {
	h.unplan(l) // it may have moved to another shard
	queue := h.queueOf(h.shards.Of(l.name))
	l.queue = queue.number
	queue.due.Set(l, at)
	h.loop.WakeBy(at)
}

// unplan takes a lease's next heartbeat out, if there is one.
func (h *heartbeats) unplan(l *Lease) {
	if l.queue != noQueue { // else none was ever planned
		h.queues[l.queue-1].due.Remove(l)
	}
}

func (h *heartbeats) queueOf(shard int) *shardQueue {
	for len(h.queues) <= shard {
		number := queueNumber(len(h.queues) + 1)
		h.queues = append(h.queues, newShardQueue(number, h.cfg.Heartbeat))
	}
	return h.queues[shard]
}

// next takes a batch out of the first queue that may send now. If there is none it returns when to
// look again.
func (h *heartbeats) next(now instant) (b *batch, next instant) {
	next = never
	for _, queue := range h.queues {
		due := h.departure(queue, now)
		if due <= now {
			return h.fill(queue, now), now
		}
		next = min(next, due)
	}
	return nil, next
}

// departure is when a queue's next heartbeat may be sent.
func (h *heartbeats) departure(queue *shardQueue, now instant) instant {
	due := queue.due.First()
	if due <= now { // the gap may put it off
		due = queue.sent.Add(h.gap(queue))
	}
	return due
}

// gap is the time that must pass between two heartbeats of a queue.
func (h *heartbeats) gap(queue *shardQueue) time.Duration {
	if queue.underWay >= batchesAtOnce {
		return h.cfg.RequestTimeout / 8
	}
	if queue.full {
		return min(fullGap, queue.gap)
	}
	return queue.gap
}

// fill makes a batch of what is due in a queue.
func (h *heartbeats) fill(queue *shardQueue, now instant) *batch {
	most := batchMost
	if queue.underWay >= batchesAtOnce {
		most = math.MaxInt
	}
	b := h.newBatch()
	b.queue, b.sent, b.lag = queue, now, now.Sub(queue.due.First())
	add := b.add
	queue.due.Take(now, most, add)
	if now >= queue.calm {
		queue.due.Take(now.Add(h.cfg.Heartbeat/4), batchLeast-len(b.leases), add)
		queue.pace(len(b.leases))
	}
	queue.depart(now, h.gap(queue))
	queue.underWay++
	queue.full = len(b.leases) == batchMost
	return b
}

// complete takes a batch back that was answered, or not. trouble is whether any of its leases was
// not answered for.
func (h *heartbeats) complete(b *batch, now instant, trouble bool) {
	queue := b.queue
	queue.underWay--
	if queue.underWay == batchesAtOnce-1 { // the next need not wait so long any more
		h.loop.WakeBy(now)
	}
	if trouble {
		queue.trouble(now.Add(h.cfg.TTL))
	}
	if len(h.spare) < batchesAtOnce && b.clear() {
		h.spare = append(h.spare, b)
	}
}

func (h *heartbeats) newBatch() *batch {
	last := len(h.spare) - 1
	if last < 0 {
		return new(batch)
	}
	b := h.spare[last]
	h.spare = h.spare[:last]
	return b
}
