package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// cycleCase is how many goroutines take and free locks, each on a key of its own, over which link.
type cycleCase struct {
	goroutines int
	delay      time.Duration // of the network, each way
}

// networkDelay is that of the case with one.
const networkDelay = 2 * time.Millisecond

var cycleCases = []cycleCase{{1, 0}, {1, networkDelay}, {4, 0}, {16, 0}, {64, 0}, {1024, 0}}

func (c cycleCase) String() string {
	if c.delay > 0 {
		return fmt.Sprintf("goroutines: %d, %v of network delay each way", c.goroutines, c.delay)
	}
	return fmt.Sprintf("goroutines: %d", c.goroutines)
}

func (c cycleCase) lone() bool { return c.goroutines == 1 && c.delay == 0 }

// cycling is one contestant in one case, in a process of its own.
type cycling struct {
	who, way                    string
	child                       *childProcess
	rate, allocs, client, redis sample // a figure a round
	times                       []time.Duration
}

// sums are what one contestant did and used in one round.
type sums struct {
	cycles int
	took   time.Duration
	allocs uint64        // of its process
	client time.Duration // processor time of its process
	redis  time.Duration // processor time of the server
}

// per is a figure a cycle.
func (s *sums) per(figure float64) float64 { return figure / float64(max(s.cycles, 1)) }

// cyclesPlan is how cycles are measured.
type cyclesPlan struct {
	who     []string // the libraries
	rounds  int
	span    time.Duration // of a contestant in a round
	profile string
}

// turns is into how many slices a round is cut, in which the contestants take turns: what
// else the machine does changes within a second or two, and should hit all of them alike.
const turns = 10

// measure measures a case: each contestant by the way to connect that was the fastest in the round
// that warms up. A library that fails is out of the case from then on.
func (p *cyclesPlan) measure(ctx context.Context, c cycleCase) ([]*cycling, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	addr := server.Addr()
	if c.delay > 0 {
		link, err := proxy.New(addr)
		if err != nil {
			return nil, err
		}
		defer link.Close()
		link.Delay(c.delay)
		addr = link.Addr()
	}
	all := p.contestants(c)
	defer endAll(all)
	for _, one := range all {
		if err := one.start(ctx, p, c, addr); err != nil {
			return nil, err
		}
	}
	if err := cyclesRound(ctx, server, all, c.goroutines, p.span/2); err != nil {
		return nil, err
	}
	fastest := withFastest(all)
	for range p.rounds {
		if err := cyclesRound(ctx, server, fastest, c.goroutines, p.span); err != nil {
			return nil, err
		}
	}
	for _, one := range fastest {
		slices.Sort(one.times)
	}
	return fastest, nil
}

// contestants are all who may be measured, in every way to connect, the floors first.
func (p *cyclesPlan) contestants(c cycleCase) (all []*cycling) {
	for _, who := range append([]string{byHand, ourScripts}, p.who...) {
		for _, way := range waysOf(who) {
			all = append(all, &cycling{who: who, way: way})
		}
		if who == lockbeat && c.goroutines == 1 {
			all = append(all, &cycling{who: inBackground})
		}
	}
	return all
}

func (one *cycling) start(ctx context.Context, p *cyclesPlan, c cycleCase, addr string) error {
	spec := childSpec{Part: partCycles, Who: one.who, Way: one.way, Addr: addr}
	if c.goroutines == profiledCycles {
		spec.Profile = p.profile
	}
	var err error
	if one.child, err = startChild(ctx, spec); err != nil {
		return err
	}
	if err := one.child.said.Decode(new(ready)); err != nil {
		return fmt.Errorf("%s did not begin: %w", one.name(), err)
	}
	return nil
}

// profiledCycles are the goroutines of the case that is profiled, if one is asked for.
const profiledCycles = 64

// endAll ends them at the same time: a process may take a while to end.
func endAll(all []*cycling) {
	var ending sync.WaitGroup
	for _, one := range all {
		ending.Go(one.end)
	}
	ending.Wait()
}

// end ends the process. What it measured is here already; if it failed, it may hang.
func (one *cycling) end() {
	if one.child == nil {
		return
	}
	var failure error
	if one.rate.failed != "" {
		failure = errors.New(one.rate.failed)
	}
	_ = one.child.end(failure)
	one.child = nil
}

func (one *cycling) name() string {
	if one.way == "" {
		return one.who
	}
	return one.who + " (" + one.way + ")"
}

func (one *cycling) isFloor() bool { return one.who == byHand || one.who == ourScripts }

// withFastest ends each contestant in all ways to connect but that by which it made the most
// cycles, and forgets what was measured so far.
func withFastest(all []*cycling) (left []*cycling) {
	fastest := make(map[string]*cycling)
	for _, one := range all {
		if f := fastest[one.who]; f == nil || one.rate.median() > f.rate.median() {
			fastest[one.who] = one
		}
	}
	var slower []*cycling
	for _, one := range all {
		if fastest[one.who] != one {
			slower = append(slower, one)
			continue
		}
		*one = cycling{
			who: one.who, way: one.way, child: one.child, rate: sample{failed: one.rate.failed},
		}
		left = append(left, one)
	}
	endAll(slower)
	return left
}

// cyclesRound lets every contestant run for a span, in slices, in an
// order that turns, so that none always follows the same one.
func cyclesRound(
	ctx context.Context, server *redistest.Server, all []*cycling, goroutines int,
	span time.Duration,
) error {
	round := make([]sums, len(all))
	for turn := range turns {
		for i := range all {
			i = (i + turn) % len(all)
			one := all[i]
			if one.rate.failed != "" {
				continue
			}
			err := one.slice(server, cyclesWanted{goroutines, span / turns}, &round[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && one.isFloor() {
				return fmt.Errorf("%s, %d goroutines: %w", one.name(), goroutines, err)
			}
			one.rate.fail(err)
		}
	}
	for i, one := range all {
		if s := &round[i]; one.rate.failed == "" {
			one.rate.add(float64(s.cycles) / s.took.Seconds())
			one.allocs.add(s.per(float64(s.allocs)))
			one.client.add(s.per(s.client.Seconds() * 1e6))
			one.redis.add(s.per(s.redis.Seconds() * 1e6))
		}
	}
	return nil
}

// slice adds what the contestant does and uses in one slice.
func (one *cycling) slice(server *redistest.Server, wanted cyclesWanted, to *sums) error {
	before, err := serverCPU(server)
	if err != nil {
		return err
	}
	done, err := askCycles(one.child, wanted)
	if err != nil {
		return err
	}
	after, err := serverCPU(server)
	if err != nil {
		return err
	}
	to.cycles += done.Cycles
	to.took += done.Took
	to.allocs += done.Allocs
	to.client += done.CPU
	to.redis += after - before
	one.times = append(one.times, done.Times...)
	return nil
}
