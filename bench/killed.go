package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// killedTTL is the TTL of a holder that is killed.
const killedTTL = 2 * time.Second

// killed measures when a waiter has the lock of a process that was
// killed, on a server that has many other keys with a TTL: the more
// there are, the later the server notices that one has expired.
func killed(ctx context.Context, o options, w io.Writer) ([]target, error) {
	others, rounds := 100_000, o.rounds
	if o.short {
		others, rounds = 1000, 1
	}
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	const fill = `for i = 1, ARGV[1] do
		redis.call('SET', 'other:' .. i, 'x', 'PX', 3600000 + i)
	end`
	if err := server.Do("EVAL", fill, "0", strconv.Itoa(others)).Error(); err != nil &&
		!rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("fill the server: %w", err)
	}
	all := make([]sample, len(contenders))
	for round := range rounds {
		for i := range contenders {
			i = (i + round) % len(contenders)
			err := within(3*capped, func() error {
				return killOnce(ctx, server, contenders[i], fmt.Sprintf("killed:%d:%d", round, i),
					&all[i])
			})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			all[i].fail(err)
		}
	}
	t := table{{"", "the waiter has it after the TTL's end: median", "latest", "times", ""}}
	for i, who := range contenders {
		t.add(who, msOf(all[i].median()), msOf(all[i].worst()), fmt.Sprint(len(all[i].values)),
			all[i].failed)
	}
	out := &printer{w: w}
	out.printf("\n## The holder is killed (-9), with %d other volatile keys, TTL %v\n\n%s", others,
		killedTTL, t)
	o.plots.add("killed", fmt.Sprintf("Holder killed, %d other volatile keys: lock had after the "+
		"TTL's end", others), "ms",
		byContender(all, func(s *sample) float64 { return min(s.median(), ms(capped)) }))
	const medianMost, worstMost = 5, 50
	return []target{
		{"holder killed, median", msOf(all[0].median()), "≤ 5 ms", all[0].failed == "" &&
			all[0].median() <= medianMost},
		{"holder killed, latest", msOf(all[0].worst()), "≤ 50 ms", all[0].failed == "" &&
			all[0].worst() <= worstMost},
	}, out.err
}

func killOnce(ctx context.Context, server *redistest.Server, who, name string, into *sample) error {
	c, err := newContender(who, deployment{addr: server.Addr()}, killedTTL)
	if err != nil {
		return err
	}
	defer func() { _ = within(endWithin, func() error { c.close(); return nil }) }()
	child, err := startChild(ctx,
		childSpec{Who: who, Part: partHold, Addr: server.Addr(), TTL: killedTTL, Name: name})
	if err != nil {
		return err
	}
	defer func() {
		_ = child.cmd.Process.Kill()
		_ = child.end(nil) // says that it was killed
	}()
	if err := child.said.Decode(new(ready)); err != nil {
		return fmt.Errorf("the child did not hold: %w", err)
	}
	key, err := leaseKey(server, name)
	if err != nil {
		return err
	}
	waited := make(chan got, 1)
	go func() { waited <- takeOnce(ctx, c.mutex(name), killedTTL+capped) }()
	time.Sleep(killedTTL / 4) // it waits by then
	if err := child.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	at, err := expiry(server, key)
	if err != nil {
		return err
	}
	g := <-waited
	if g.At == 0 {
		into.add(math.Inf(1))
		return nil
	}
	into.add(ms(time.Duration(g.At - at.UnixNano())))
	return nil
}
