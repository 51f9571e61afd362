package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// lane is what the heartbeats of one shard of the store have of their own, so that a
// server that does not answer holds up no other's: when they are due, and how many
// of them wait. A store that is not [Sharded] has one lane. Guarded by Keeper.mu.
type lane struct {
	number  laneNumber
	beats   *timing.TimingWheel[*Lease]
	flights int           // under way
	sent    instant       // when the last was sent
	full    bool          // it left others behind that were due
	calm    instant       // when the last failure is long enough ago
	gap     time.Duration // between two heartbeats
	gapMost time.Duration
}

// laneNumber is a lane in fewer bytes than a pointer, of which every
// lease has one: n is the lane of shard n-1.
type laneNumber int16

const noLane laneNumber = 0

func newLane(number laneNumber, heartbeat time.Duration) *lane {
	gapMost := min(gatherMost, heartbeat/64)
	return &lane{
		number: number, beats: timing.NewTimingWheel(2*heartbeat, heartbeatPlace), sent: -never,
		gap: min(gatherLeast, gapMost), gapMost: gapMost,
	}
}

// trouble keeps the heartbeats small until an instant, lest one lease spoil those of many.
func (ln *lane) trouble(until instant) { ln.calm, ln.gap = until, min(gatherLeast, ln.gapMost) }

// pace makes the gap longer after a small heartbeat and shorter after a large one.
func (ln *lane) pace(leases int) {
	if leases < batchGood {
		ln.gap = min(ln.gap*5/4, ln.gapMost)
	} else {
		ln.gap = min(max(ln.gap*4/5, gatherLeast), ln.gapMost)
	}
}

// laneOf is the lane of a lease as the store now sees it. Under k.mu.
func (k *Keeper) laneOf(l *Lease) *lane {
	i := k.shards.of(l.name)
	for len(k.lanes) <= i {
		k.lanes = append(k.lanes, newLane(laneNumber(len(k.lanes)+1), k.cfg.Heartbeat))
	}
	return k.lanes[i]
}

// plan enters a lease's next heartbeat, in place of the one planned before. Under k.mu.
func (k *Keeper) plan(l *Lease, at instant) {
	k.unplan(l) // it may have moved to another shard
	lane := k.laneOf(l)
	l.lane = lane.number
	lane.beats.Set(l, at)
	k.beatLoop.WakeBy(at)
}

// unplan takes a lease's next heartbeat out, if there is one. Under k.mu.
func (k *Keeper) unplan(l *Lease) {
	if l.lane != noLane { // else none was ever planned
		k.lanes[l.lane-1].beats.Remove(l)
	}
}
