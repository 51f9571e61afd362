package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

// cycles measures acquire + release, and when a caller returns who gives up on a server that hangs.
func cycles(ctx context.Context, o options, w io.Writer) ([]target, error) {
	out := &printer{w: w}
	targets, err := cyclesOf(ctx, o, out, []string{lockbeat, peer}, max(o.rounds, 5), floorTargets)
	if err != nil {
		return nil, err
	}
	more, err := canceled(ctx, o, out)
	return append(targets, more), err
}

// peerCycles measures acquire + release of every library.
func peerCycles(ctx context.Context, o options, w io.Writer) ([]target, error) {
	return cyclesOf(ctx, o, &printer{w: w}, contenders, o.rounds,
		func(c cycleCase, all cyclings) []target {
			return append(floorTargets(c, all), peerTargets(c, all)...)
		})
}

func cyclesOf(
	ctx context.Context, o options, out *printer, who []string, rounds int,
	judge func(cycleCase, cyclings) []target,
) (targets []target, err error) {
	p := &cyclesPlan{who: who, rounds: rounds, span: time.Second, profile: o.profile}
	if o.short {
		p.span, p.rounds = 100*time.Millisecond, 1
	}
	for _, c := range cycleCases {
		all, err := p.measure(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		out.printf("\n## Acquire + release, %v, a key each, fencing on (medians of %d rounds of "+
			"%v)\n\n%s", c, p.rounds, p.span, cyclings(all).table())
		targets = append(targets, judge(c, all)...)
		o.plots.add(c.file(), "Acquire + release, "+c.String(), "cycles/s ÷ by hand",
			func(who string) float64 { return cyclings(all).ratio(who, byHand) })
	}
	return targets, out.err
}

// file is the name of the plot.
func (c cycleCase) file() string {
	name := fmt.Sprintf("cycles-%d", c.goroutines)
	if c.delay > 0 {
		name += "-delay"
	}
	return name
}

// cyclings are all contestants of a case.
type cyclings []*cycling

// of finds a contestant. That of a name that was not measured has nothing but NaN.
func (all cyclings) of(who string) *cycling {
	for _, one := range all {
		if one.who == who {
			return one
		}
	}
	return new(cycling)
}

// ratio compares the cycles a second, round by round.
func (all cyclings) ratio(who, than string) float64 {
	return ratioOf(&all.of(who).rate, &all.of(than).rate)
}

// least is the smallest figure that any of them has, NaN if none has one.
func (all cyclings) least(figure func(*cycling) float64, who ...string) float64 {
	least := math.NaN()
	for _, name := range who {
		if v := figure(all.of(name)); !(v >= least) && !math.IsNaN(v) {
			least = v
		}
	}
	return least
}

func (one *cycling) p50() float64 { return one.quantile(.5) }

// quantile is in ns, NaN if there were no cycles, or not all of them succeeded.
func (one *cycling) quantile(q float64) float64 {
	if len(one.times) == 0 || one.rate.failed != "" {
		return math.NaN()
	}
	return float64(quantile(one.times, q))
}

func (one *cycling) clientCPU() float64 { return quantileOf(one.client.values, .5) }

func (all cyclings) table() table {
	t := table{{
		"", "cycles/s", "÷ " + byHand, "÷ " + ourScripts, "p50, µs", "p99, µs", "allocs a cycle",
		"client CPU µs a cycle", "Redis CPU µs a cycle", "",
	}}
	for _, one := range all {
		row := []string{one.name(), whole(one.rate.median())}
		for _, than := range []string{byHand, ourScripts} {
			row = append(row, fmt.Sprintf("%.2f", all.ratio(one.who, than)))
		}
		for _, figure := range []float64{
			one.p50() / 1e3, one.quantile(.99) / 1e3, one.allocs.median(), one.client.median(),
			one.redis.median(),
		} {
			row = append(row, fmt.Sprintf("%.1f", figure))
		}
		t.add(append(row, one.rate.failed)...)
	}
	return t
}

// floorTargets are what Lockbeat may cost beside what a user can write by hand.
func floorTargets(c cycleCase, all cyclings) []target {
	const loneMost, delayMost, backgroundMost, allocsMost, crowdLeast = 1.25, 1.02, .7, 10, .8
	row := "acquire + release, " + c.String() + ", "
	ours, floor := all.of(lockbeat), all.least((*cycling).p50, byHand, ourScripts)
	background := func() target {
		return atMost(row+"ReleaseInBackground, p50 ÷ the best floor",
			all.of(inBackground).p50()/floor, backgroundMost)
	}
	switch {
	case c.delay > 0:
		return []target{
			atMost(row+"p50 ÷ the best floor", ours.p50()/floor, delayMost), background(),
		}
	case c.goroutines == 1:
		return []target{
			atMost(row+"p50 ÷ the best floor", ours.p50()/floor, loneMost),
			atMost(row+"p50 ÷ "+ourScripts, ours.p50()/all.of(ourScripts).p50(), loneMost),
			background(),
			atMost(row+"allocations", quantileOf(ours.allocs.values, .5), allocsMost),
		}
	case c.goroutines == 64:
		return []target{atLeast(row+"cycles/s ÷ "+ourScripts, all.ratio(lockbeat, ourScripts),
			crowdLeast)}
	default:
		return nil
	}
}

// peerTargets are what Lockbeat must reach beside the other libraries.
func peerTargets(c cycleCase, all cyclings) (targets []target) {
	row := "acquire + release, " + c.String() + ", "
	ours, peers := all.of(lockbeat), contenders[1:]
	p50 := func(among string, who []string, most float64) target {
		return atMost(row+"p50 ÷ "+among, ours.p50()/all.least((*cycling).p50, who...), most)
	}
	if c.delay > 0 {
		return nil
	}
	if c.lone() {
		targets = append(targets, p50("the best peer", peers, 1.25),
			p50("the best of redsync and rueidislock",
				[]string{peer, redsyncRueidis, redsyncGoRedis}, 1))
	}
	if least := map[int]float64{4: 1.2, 16: 1.3, 64: 1.5, 1024: 1.5}[c.goroutines]; least > 0 {
		targets = append(targets, atLeast(row+"cycles/s ÷ the best peer",
			all.least(func(one *cycling) float64 { return all.ratio(lockbeat, one.who) }, peers...),
			least))
	}
	if most := map[int]float64{1: 1.1, 64: .6}[c.goroutines]; most > 0 {
		targets = append(targets, atMost(row+"client CPU ÷ the best peer",
			ours.clientCPU()/all.least((*cycling).clientCPU, peers...), most))
	}
	return targets
}
