package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

// wakeUps measures how long after a release a waiter in another process has the lock.
func wakeUps(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	client, err := server.NewClient()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	each, rounds := 40, o.rounds
	if o.short {
		each, rounds = 3, 1
	}
	all := make([]sample, len(contenders))
	var pings sample
	for round := range rounds {
		for i := range contenders {
			i = (i + round) % len(contenders)
			err := within(time.Duration(each+2)*capped, func() error {
				return wakeRound(ctx, server.Addr(), contenders[i], round, each, &all[i], client,
					&pings)
			})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			all[i].fail(err)
		}
	}
	ping := quantileOf(pings.values, .5)
	t := table{{"", "p50", "÷ PING p50", "p99", "longest", "releases", ""}}
	for i, who := range contenders {
		v := all[i].values
		t.add(who, msOf(quantileOf(v, .5)), times(quantileOf(v, .5), ping),
			msOf(quantileOf(v, .99)), msOf(all[i].worst()),
			fmt.Sprint(len(v)), all[i].failed)
	}
	t.add("PING", msOf(ping), "1.00", msOf(quantileOf(pings.values, .99)), msOf(pings.worst()), "",
		"")
	out := &printer{w: w}
	out.printf("\n## Wake-up after a release in another process (from the release's return)\n\n%s",
		t)
	o.plots.add("wake", "Wake-up after a release in another process, p50", "ms",
		byContender(all, func(s *sample) float64 {
			return quantileOf(s.values, .5)
		}))
	p50, p99 := quantileOf(all[0].values, .5), quantileOf(all[0].values, .99)
	const pingsMost, mostMs = 3, 1
	return []target{
		{"wake-up, p50", times(p50, ping) + " × PING", "≤ 3", p50 <= pingsMost*ping},
		{"wake-up, p99", msOf(p99), "≤ 1 ms", p99 <= mostMs},
	}, out.err
}

// byContender reads a figure of the library that has a name.
func byContender(all []sample, figure func(*sample) float64) func(string) float64 {
	return func(who string) float64 {
		for i := range contenders {
			if contenders[i] == who {
				return figure(&all[i])
			}
		}
		return math.NaN()
	}
}

// wakeRound frees a lock some times while a child waits for it.
func wakeRound(
	ctx context.Context, addr, who string, round, each int, into *sample, client rueidis.Client,
	pings *sample,
) (err error) {
	c, err := newContender(who, deployment{addr: addr}, cycleTTL)
	if err != nil {
		return err
	}
	defer c.close()
	child, err := startChild(ctx, childSpec{Who: who, Part: partWait, Addr: addr, TTL: cycleTTL})
	if err != nil {
		return err
	}
	defer func() { err = child.end(err) }()
	if err := child.said.Decode(new(ready)); err != nil {
		return fmt.Errorf("the child did not begin: %w", err)
	}
	for i := range each {
		name := fmt.Sprintf("wake:%d:%d", round, i)
		_, let, err := locked(ctx, c.mutex(name), cycleTTL)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(child.stdin, name+"\n"); err != nil {
			return err
		}
		// the child waits by then; who polls is met at any phase
		time.Sleep(20*time.Millisecond + rand.N(100*time.Millisecond))
		if err := let(); err != nil {
			return err
		}
		freed := time.Now().UnixNano()
		var g got
		if err := child.said.Decode(&g); err != nil {
			return fmt.Errorf("the child said nothing: %w", err)
		}
		if g.Err != "" {
			return errors.New(g.Err)
		}
		into.add(ms(time.Duration(g.At - freed)))
		begun := time.Now()
		if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			return fmt.Errorf("PING: %w", err)
		}
		pings.add(ms(time.Since(begun)))
	}
	return nil
}
