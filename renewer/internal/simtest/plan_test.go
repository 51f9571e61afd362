package simtest_test

import (
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

type weather string

const (
	// drizzle: single requests and replies are lost, and callers are told so
	// soon.
	drizzle weather = "drizzle"
	// storm: links are cut, the server freezes, and much is lost without a
	// word.
	storm weather = "storm"
	// crowd: many processes want one name, in fine weather. Most of them may
	// die at once; the head of one leaves all the time.
	crowd weather = "crowd"
)

// plan is all about a world that is settled before it begins. It follows from
// the seed.
type plan struct {
	seed                       uint64
	weather                    weather
	processes, names, callers  int     // callers of each process
	limit                      int     // how many may have a name; 0: names are those of locks
	several                    float64 // of turns are for two names at once
	quota                      int     // grants after which callers come to an end
	cfg                        renewer.Config
	observed                   bool
	panics                     float64 // of observers, in callers' goroutines
	drift                      int64   // of the server's clock
	settle                     time.Duration
	loss, silent, copies, slow float64
	slowest                    time.Duration
	cuts, freezes              time.Duration // the longest; 0: none
	restarts                   bool
	turn                       time.Duration // of a line at the server; 0: there is none
	kills                      bool          // some restarts are without a word
	disasters                  bool          // happen to the server
	impatient                  bool          // callers of the first process leave all the time
	mostWait                   time.Duration // of a process that wants a name; 0: not looked at
	faults                     faults
}

func newPlan(seed uint64, quota int, f faults) plan {
	d := newDice(seed, "plan")
	p := plan{
		seed: seed, quota: quota, faults: f,
		weather:   pick(d, drizzle, storm),
		processes: 2 + d.IntN(3), names: 1 + d.IntN(3), callers: 1 + d.IntN(5),
		observed: d.chance(.7),
		copies:   pick(d, 0, .02, .1),
		restarts: d.chance(.5),
	}
	if d := newDice(seed, "panics"); p.observed {
		p.panics = pick(d, 0, .01, .05)
	}
	if d := newDice(seed, "several"); p.names > 1 && d.chance(.4) {
		p.several = .3
	}
	extras := newDice(seed, "extras")
	p.kills, p.disasters = p.restarts && extras.chance(.4), extras.chance(.3)
	if extras.chance(.2) {
		return p.crowded(extras)
	}
	if limits := newDice(seed, "limits"); limits.chance(.3) {
		p.limit, p.disasters = 1+limits.IntN(3), false
	}
	p.cfg.ClockDrift = pick(d, .001, .01, .05)
	p.drift = pick(d, leastDrift(p.cfg.ClockDrift), 0, mostDrift(p.cfg.ClockDrift),
		mostDrift(p.cfg.ClockDrift))
	p.cfg.HandOffs = pick(d, -1, 0, 3)
	lines := d.chance(.5)
	if p.weather == drizzle {
		if lines {
			p.turn = time.Second
		}
		p.cfg.TTL = d.between(20*time.Second, 40*time.Second).Truncate(time.Millisecond)
		p.settle = 2 * time.Second
		p.loss, p.silent, p.slow, p.slowest = .06, .1, .02, p.settle/2
		return p
	}
	p.cfg.TTL = d.between(400*time.Millisecond, 6*time.Second).Truncate(time.Millisecond)
	p.cfg.Margin = pick(d, time.Millisecond, 0, p.cfg.TTL/4)
	p.settle = p.cfg.TTL
	if lines {
		p.turn = min(time.Second, p.cfg.TTL/2)
	}
	p.loss, p.silent, p.slow, p.slowest = pick(d, .02, .1, .25), d.Float64(), pick(d, .02,
		.2), 2*p.cfg.TTL
	p.cuts, p.freezes = pick(d, 0, p.cfg.TTL, 3*p.cfg.TTL), pick(d, 0, p.cfg.TTL, 2*p.cfg.TTL)
	if d.chance(.3) {
		p.cfg.MaxHold = d.between(p.cfg.TTL, 4*p.cfg.TTL)
	}
	if d.chance(.5) {
		p.cfg.CancelGrace = d.between(time.Millisecond, p.cfg.TTL/4)
	}
	return p
}

// longestPoll is the longest pause between two questions of a waiter.
const longestPoll = 5 * time.Second * 6 / 5

// crowded is the plan of a crowd.
func (p plan) crowded(d dice) plan {
	p.weather, p.processes, p.names = crowd, 8+d.IntN(8), 1
	p.callers = 1 + d.IntN(2)
	p.panics, p.several, p.copies, p.restarts, p.disasters = 0, 0, 0, false, false
	p.kills, p.impatient = d.chance(.5), d.chance(.6)
	if p.impatient {
		p.callers = 1 + d.IntN(4)
	}
	p.cfg.TTL, p.turn, p.settle = 5*time.Second, time.Second, time.Second
	p.cfg.HandOffs = -1
	// A holder and the two places behind it may be on machines that die at
	// once: the others find out by their poll.
	p.mostWait = 2*p.cfg.TTL + longestPoll + 4*p.turn
	return p
}

// margin is that of every keeper.
func (p *plan) margin() time.Duration {
	if p.cfg.Margin == 0 {
		return p.cfg.TTL / 10
	}
	return p.cfg.Margin
}

// delay is one way's.
func (p *plan) delay(d dice) time.Duration {
	if d.chance(p.slow) {
		return d.between(time.Millisecond, p.slowest)
	}
	return d.between(20*time.Microsecond, 2*time.Millisecond)
}

// spells are of up to most, the more seldom the longer.
func (p *plan) spells(most time.Duration, label string, n int) *spells {
	return &spells{dice: newDice(p.seed, label, n), every: 5 * most, least: most / 20, most: most}
}

// limits reports whether a name is that of a limit.
func (p plan) limits(name string) bool { return p.limit > 0 && !strings.HasPrefix(name, "idle") }
