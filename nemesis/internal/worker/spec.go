package worker

import (
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/renewer"
)

// Env makes a program a worker: its value is a [Spec], as JSON.
const Env = "NEMESIS_WORKER"

// Spec is what a worker is told.
type Spec struct {
	Name   string
	Seed   uint64
	Deploy deploy.Spec
	Keys   []string
	// Limits are how many may have a name at once, of those that are limits.
	Limits map[string]int
	// Broken are the names of which leases are broken and replaced. The others are left alone, so
	// that leases outlast a TTL.
	Broken []string
	// BreakEvery is how often a worker breaks a lease, on average.
	BreakEvery time.Duration
	Callers    int
	// Long is one in how many uses that last longer than a TTL.
	Long int
	TTL  time.Duration
	Flaw Flaw
}

// Config is how workers keep leases.
func Config(ttl time.Duration) renewer.Config {
	return renewer.Config{
		TTL: ttl, Margin: ttl / 10, RequestTimeout: ttl / 6,
		ClockDrift: 0.01, Log: renewer.Silent,
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
	// OneMore: the worker asks for slots as if each limit were higher by one.
	OneMore Flaw = "one-more"
	// EagerBreak: a lease that is broken is freed at once, and not when its operation has returned.
	EagerBreak Flaw = "eager-break"
)

// Flaws are all but Sound.
var Flaws = []Flaw{LateRelease, DeafRenewal, ShortRenewal, StaleToken, OneMore, EagerBreak}
