package campaign

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// Options say what to run.
type Options struct {
	Deployment string
	Seed       uint64
	Duration   time.Duration
	// Faults are names of kinds; none: all that fit.
	Faults  []string
	TTL     time.Duration
	Workers int
	Callers int // of each worker
	Keys    int
	Long    int // one in how many uses outlasts a TTL
	// BreakEvery is how often each worker breaks a lease, on average. Two of three names are for
	// that. 0: never, and no call replaces another.
	BreakEvery time.Duration
	Flaw       worker.Flaw
	// MostWait is the longest that a process that runs may wait for a lock; 0: not judged.
	MostWait time.Duration
	// Say, if it is not nil, hears what happens.
	Say func(format string, args ...any)
}

// Defaults are those of the program.
func Defaults() Options {
	return Options{
		Deployment: "standalone", Seed: 1, Duration: 50 * time.Second,
		TTL: 2 * time.Second, Workers: 5, Callers: 6, Keys: 6, Long: 400,
		BreakEvery: 20 * time.Millisecond,
	}
}

// Replay is the command that runs the same again.
func (o Options) Replay() string {
	d := Defaults()
	var b strings.Builder
	fmt.Fprintf(&b, "go run . -deployment %s -seed %d -duration %v",
		o.Deployment, o.Seed, o.Duration)
	if len(o.Faults) > 0 {
		fmt.Fprintf(&b, " -faults %s", strings.Join(o.Faults, ","))
	}
	add := func(flag string, value, standard any) {
		if value != standard {
			fmt.Fprintf(&b, " -%s %v", flag, value)
		}
	}
	add("ttl", o.TTL, d.TTL)
	add("workers", o.Workers, d.Workers)
	add("callers", o.Callers, d.Callers)
	add("keys", o.Keys, d.Keys)
	add("long", o.Long, d.Long)
	add("break-every", o.BreakEvery, d.BreakEvery)
	add("most-wait", o.MostWait, d.MostWait)
	add("flaw", o.Flaw, d.Flaw)
	return b.String()
}
