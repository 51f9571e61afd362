package simtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// event is something that a run must have seen often: a simulation in
// which nothing happens proves nothing.
type event string

const (
	granted      event = "granted by the store"
	handedOver   event = "handed over"
	renewed      event = "renewed"
	requestLost  event = "requests lost"
	replyLost    event = "replies lost"
	copyActed    event = "copies that took a free name"
	cutOff       event = "requests cut off"
	frozenAt     event = "requests at a frozen server"
	lateActed    event = "requests carried out when their caller had gone"
	wakeLost     event = "wake-ups lost"
	shutDown     event = "keepers shut down"
	leftToLapse  event = "keys lapsed"
	refusedCall  event = "calls refused"
	cancelled    event = "calls cancelled"
	extended     event = "leases extended"
	turnsInLine  event = "grants and turns of places in line"
	toldOfGrant  event = "grants told by a message"
	killed       event = "processes killed"
	flushed      event = "data lost"
	setBack      event = "clocks set back"
	restarted    event = "servers restarted"
	failedOver   event = "fail-overs"
	turnsLapsed  event = "grants and turns of places lapsed"
	tripped      event = "panics of observers"
	believed     event = "grants to callers"
	bothHeld     event = "two names held at once"
	lostLease    event = "leases lost: " // and the reason
	expiredLoss  event = lostLease + "expired"
	maxHoldLoss  event = lostLease + "max_hold"
	abandonLoss  event = lostLease + "abandoned"
	shutdownLoss event = lostLease + "shutdown"
)

// everything must have happened in a run of the whole budget.
var everything = []event{
	believed, bothHeld, granted, handedOver, renewed, turnsInLine, toldOfGrant,
	turnsLapsed, killed,
	flushed, setBack, restarted, failedOver, requestLost, replyLost, copyActed, cutOff,
	frozenAt, lateActed, wakeLost, shutDown, leftToLapse, tripped,
	refusedCall, cancelled, extended, expiredLoss, maxHoldLoss, abandonLoss, shutdownLoss,
}

// tally counts events. It may be used concurrently.
type tally struct {
	mu sync.Mutex
	n  map[event]int
}

func (y *tally) count(e event) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.n == nil {
		y.n = map[event]int{}
	}
	y.n[e]++
}

// add adds another tally, which is not in use any more.
func (y *tally) add(other *tally) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.n == nil {
		y.n = map[event]int{}
	}
	for e, n := range other.n {
		y.n[e] += n
	}
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	for _, e := range slices.Sorted(maps.Keys(y.n)) {
		fmt.Fprintf(&b, "%8d %s\n", y.n[e], e)
	}
	return b.String()
}
