// Package beat decides which leases are due for a heartbeat, when, and in which
// batches, those of each shard on their own: so a server that does not answer
// holds up no other's. It sends nothing, and knows a lease only by its place
// here and by what a heartbeat asks of the store.
//
// Its invariant: a lease that is planned is in the queue of one shard, until it
// is unplanned or goes into a batch, whose sender plans it again when that is
// answered, or late; and no heartbeat waits for another's answer.
package beat

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// batchesAtOnce is up to how many heartbeats of a shard are under way at once
// without further ado. When the store hangs they all wait. More then start at
// intervals of an eighth of RequestTimeout, each with everything that has come
// due: so no lease waits for another's answer, and no more than these plus
// about three times eight ever wait together: see [Heartbeats.Late].
const batchesAtOnce = 8

// Heartbeats are those of all leases. The caller guards them with one lock,
// other than the Loop.
//
// The sizes of batches suit a store that reads each lease of a heartbeat. For
// one whose heartbeat serves all leases of a session, [shardQueue] needs other
// sizes; the rest stays.
type Heartbeats[L any] struct {
	Loop *timing.Loop // steps when one may be due

	cfg    Config[L]
	queues []*shardQueue[L] // by shard
	young  []*Batch[L]      // under way for less than RequestTimeout, in their order
	spare  []*Batch[L]      // that have been completed, for their slices
	cohort cohort           // that new leases join
}

// Config is what heartbeats go by.
type Config[L any] struct {
	TTL, Heartbeat, RequestTimeout time.Duration // as in renewer.Config

	Place func(L) *Place     // where a lease keeps its place
	Hold  func(L) store.Hold // what a heartbeat asks of the store
}

// Place is where a lease stands in the heartbeats. Only they change it.
type Place struct {
	wheel timing.Place
	queue queueNumber
}

// New returns the heartbeats of no lease.
func New[L any](cfg Config[L], clock *timing.Clock) Heartbeats[L] {
	return Heartbeats[L]{
		Loop: timing.NewLoop(clock), cfg: cfg, cohort: newCohort(cfg.Heartbeat),
	}
}

// First is when a lease is due for its first heartbeat; sent is when the store
// was asked for the lease.
func (h *Heartbeats[L]) First(sent timing.Instant) timing.Instant { return h.cohort.join(sent) }

// Plan enters a lease's next heartbeat on a shard, in place of the one planned
// before.
func (h *Heartbeats[L]) Plan(l L, shard int, at timing.Instant) {
	h.Unplan(l) // it may have moved to another shard
	queue := h.queueOf(shard)
	h.cfg.Place(l).queue = queue.number
	queue.due.Set(l, at)
	h.Loop.WakeBy(at)
}

// Unplan takes a lease's next heartbeat out, if there is one.
func (h *Heartbeats[L]) Unplan(l L) {
	if n := h.cfg.Place(l).queue; n != noQueue { // else none was ever planned
		h.queues[n-1].due.Remove(l)
	}
}

// Planned reports whether a lease has a next heartbeat: none does while one is
// under way that is not late.
func (h *Heartbeats[L]) Planned(l L) bool { return h.cfg.Place(l).wheel != timing.Nowhere }

func (h *Heartbeats[L]) queueOf(shard int) *shardQueue[L] {
	for len(h.queues) <= shard {
		number := queueNumber(len(h.queues) + 1)
		wheel := timing.NewWheel(2*h.cfg.Heartbeat, func(l L) *timing.Place {
			return &h.cfg.Place(l).wheel
		})
		h.queues = append(h.queues, newShardQueue(number, h.cfg.Heartbeat, wheel))
	}
	return h.queues[shard]
}

// Late returns a batch that has become late: RequestTimeout is over, and it was
// not answered. Its leases are to be planned again, since the request may be
// lost. It is to be completed all the same when its answer comes: in a process
// that is short of processor time all answers are slow, and the one to the next
// request will come no sooner.
func (h *Heartbeats[L]) Late(now timing.Instant) (b *Batch[L], late bool) {
	if h.lateAt() > now {
		return nil, false
	}
	b = h.young[0]
	h.young = slices.Delete(h.young, 0, 1)
	b.Late = true
	b.queue.trouble(now.Add(h.cfg.TTL))
	return b, true
}

// lateAt is when the next batch becomes late.
func (h *Heartbeats[L]) lateAt() timing.Instant {
	if len(h.young) == 0 {
		return timing.Never
	}
	return h.young[0].Sent.Add(h.cfg.RequestTimeout)
}

// Next takes a batch out of the first queue that may send now. If there is none
// it returns when to look again.
func (h *Heartbeats[L]) Next(now timing.Instant) (b *Batch[L], next timing.Instant) {
	next = h.lateAt()
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
func (h *Heartbeats[L]) departure(queue *shardQueue[L], now timing.Instant) timing.Instant {
	due := queue.due.First()
	if due <= now { // the gap may put it off
		due = queue.sent.Add(h.gap(queue))
	}
	return due
}

// gap is the time that must pass between two heartbeats of a queue.
func (h *Heartbeats[L]) gap(queue *shardQueue[L]) time.Duration {
	if queue.underWay >= batchesAtOnce {
		return h.cfg.RequestTimeout / 8
	}
	if queue.full {
		return min(fullGap, queue.gap)
	}
	return queue.gap
}

// fill makes a batch of what is due in a queue.
func (h *Heartbeats[L]) fill(queue *shardQueue[L], now timing.Instant) *Batch[L] {
	most := batchMost
	if queue.underWay >= batchesAtOnce {
		most = math.MaxInt
	}
	b := h.newBatch()
	b.queue, b.Sent, b.Lag = queue, now, now.Sub(queue.due.First())
	add := func(l L) { b.add(l, h.cfg.Hold(l)) }
	queue.due.Take(now, most, add)
	if now >= queue.calm {
		queue.due.Take(now.Add(h.cfg.Heartbeat/4), batchLeast-len(b.Leases), add)
		queue.pace(len(b.Leases))
	}
	queue.depart(now, h.gap(queue))
	queue.underWay++
	queue.full = len(b.Leases) == batchMost
	h.young = append(h.young, b)
	return b
}

// Complete takes a batch back that was answered, or not. trouble is whether any
// of its leases was not answered for.
func (h *Heartbeats[L]) Complete(b *Batch[L], now timing.Instant, trouble bool) {
	queue := b.queue
	if !b.Late {
		i := slices.Index(h.young, b)
		h.young = slices.Delete(h.young, i, i+1)
	}
	queue.underWay--
	if queue.underWay == batchesAtOnce-1 { // the next need not wait so long any more
		h.Loop.WakeBy(now)
	}
	if trouble {
		queue.trouble(now.Add(h.cfg.TTL))
	}
	if len(h.spare) < batchesAtOnce && b.clear() {
		h.spare = append(h.spare, b)
	}
}

func (h *Heartbeats[L]) newBatch() *Batch[L] {
	last := len(h.spare) - 1
	if last < 0 {
		return new(Batch[L])
	}
	b := h.spare[last]
	h.spare = h.spare[:last]
	return b
}

// cohort is the rhythm of leases that were taken one after another, as many as
// go into a heartbeat: they share the instants of their heartbeats. So they
// stay neighbours there, as they are in the memory of this process and of the
// server, and a processor reads neighbours at less cost.
//
// Cohorts are spread over the second half of the interval, so that leases taken
// together do not beat all at once.
type cohort struct {
	heartbeat time.Duration
	first     timing.Instant // the heartbeat of its leases
	until     timing.Instant // when the last may join
	room      int            // for so many leases
	phase     float64        // of the next cohort, from 0 to 1
}

func newCohort(heartbeat time.Duration) cohort {
	// at random, so that processes do not beat together
	phase := float64(timing.Jitter(heartbeat)) / float64(heartbeat)
	return cohort{heartbeat: heartbeat, phase: phase}
}

// join is when a lease is due for its first heartbeat; sent is when the store
// was asked for the lease, perhaps long ago. It is an interval after sent at
// the latest.
func (c *cohort) join(sent timing.Instant) timing.Instant {
	if c.room == 0 || sent > c.until {
		half := c.heartbeat / 2
		c.first = sent.Add(half + time.Duration(c.phase*float64(half)))
		c.until = sent.Add(min(gapMost, c.heartbeat/64))
		c.room = batchMost
		// Steps of the golden ratio fill the half evenly, however many there
		// are.
		_, c.phase = math.Modf(c.phase + math.Phi)
	}
	c.room--
	return min(c.first, sent.Add(c.heartbeat))
}

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
	// A batch that is sent this late, or less, does not delay the next: an idle
	// process wakes up to a good millisecond late, and so a million leases
	// would get two heartbeats in place of three.
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
