package worker

import (
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/renewer"
)

// Env makes a program a worker: its value is a [Spec], as JSON.
const Env = "LOCKBEAT_NEMESIS_WORKER"

// Spec is what a worker is told.
type Spec struct {
	Name     string
	Slot     int // its place in the crew, which survives its death
	Seed     uint64
	Deploy   deploy.Spec
	Resource string // the path of its socket
	Keys     []string
	Callers  int
	// Long is one in how many uses that last longer than a TTL.
	Long int
	TTL  time.Duration
	Flaw Flaw
	// Leave is one in how many calls that wait for a tenth of a second at most, so that heads of
	// lines keep leaving; 0: none.
	Leave int
	// Think is the longest that a caller waits before it takes a lock.
	Think time.Duration
	// Idle is how many leases more it holds all the time, on names of
	// its own that no other contends for.
	Idle int
}

// Config is how workers keep leases.
func Config(ttl time.Duration) renewer.Config {
	return renewer.Config{
		TTL: ttl, Margin: ttl / 10, RequestTimeout: ttl / 6,
		ClockDrift: renewer.DefaultClockDrift,
	}
}

// Flaw breaks the lock on purpose, to see that the suite finds it.
type Flaw string

// The flaws.
const (
	Sound Flaw = ""
	// LateRelease: the worker goes on for a while after it has released the lock.
	LateRelease Flaw = "late-release"
	// DeafRenewal: heartbeats that fail, or find the key gone, are taken for confirmed.
	DeafRenewal Flaw = "deaf-renewal"
	// ShortRenewal: heartbeats set a quarter of the TTL.
	ShortRenewal Flaw = "short-renewal"
	// StaleToken: each grant of the store is given the same fencing token.
	StaleToken Flaw = "stale-token"
	// StuckRenewal: heartbeats have a connection of their own, which stays with a former primary
	// that can be reached.
	StuckRenewal Flaw = "stuck-renewal"
)

// Flaws are all but Sound.
var Flaws = []Flaw{LateRelease, DeafRenewal, ShortRenewal, StaleToken, StuckRenewal}
