package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// peerCycles measures acquire + release on keys of one's own for every library, with the floor.
func peerCycles(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	all, closeAll, err := newPeerCyclers(ctx, server.Addr())
	if err != nil {
		return nil, err
	}
	defer closeAll()
	span, rounds := time.Second, o.rounds
	if o.short {
		span, rounds = 100*time.Millisecond, 1
	}
	out := &printer{w: w}
	var targets []target
	for _, goroutines := range []int{1, 64, 1024} {
		warm := make([]cycling, len(all))
		if err := cycleRound(ctx, server, all, warm, goroutines, span); err != nil {
			return nil, err
		}
		results := make([]cycling, len(all))
		for range rounds {
			if err := cycleRound(ctx, server, all, results, goroutines, span); err != nil {
				return nil, err
			}
		}
		out.printf("\n## Acquire + release, goroutines: %d, a key each (medians of %d rounds of "+
			"%v)\n\n%s",
			goroutines, rounds, span, cyclingTable(all, results))
		targets = append(targets, cyclingTargets(goroutines, all, results)...)
		o.plots.add(fmt.Sprintf("cycles-%d", goroutines),
			fmt.Sprintf("Acquire + release, goroutines: %d", goroutines), "÷ raw rueidis",
			func(who string) float64 { return resultOf(who, all, results).ratio.median() })
	}
	return targets, out.err
}

// newPeerCyclers makes the floor and then all contenders.
func newPeerCyclers(ctx context.Context, addr string) (all []cycler, closeAll func(), err error) {
	base, err := rawCycler(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	all = []cycler{base}
	closeAll = func() {
		for _, c := range all {
			c.close()
		}
	}
	for _, who := range contenders {
		c, err := newContender(who, addr, cycleTTL)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, cycler{who, func(number int) func(context.Context) error {
			m := c.mutex(who + ":" + leaseName(number))
			return func(ctx context.Context) error {
				if _, err := m.lock(ctx); err != nil {
					return err
				}
				return m.unlock(ctx)
			}
		}, c.close})
	}
	return all, closeAll, nil
}
