package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// toldTTL is the TTL of a lock whose loss is awaited. A holder hears
// by its heartbeat, each third or half of it.
const toldTTL = 3 * time.Second

// ways are how another takes a key away.
var ways = []struct {
	name    string
	command func(key string) []string
}{
	{"deleted", func(key string) []string { return []string{"DEL", key} }},
	{"overwritten", func(key string) []string {
		return []string{"SET", key, "another", "PX", "2000"}
	}},
}

// toldOfKey measures how long after a key was taken away its holder is told.
func toldOfKey(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	each, rounds := 3, o.rounds
	if o.short {
		each, rounds = 1, 1
	}
	t := table{{"", "the key is", "told after, p50", "longest", "times", ""}}
	var targets []target
	for _, way := range ways {
		all := make([]sample, len(contenders))
		for round := range rounds * each {
			everyone(all, func(i int) error {
				name := fmt.Sprintf("told:%s:%d:%d", way.name, round, i)
				return toldOnce(ctx, server, contenders[i], name, &all[i],
					func(key string) (time.Time, error) {
						return time.Now(), server.Do(way.command(key)...).Error()
					})
			})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		for i, who := range contenders {
			v := all[i].values
			t.add(who, way.name, msOf(quantileOf(v, .5)), msOf(all[i].worst()), fmt.Sprint(len(v)),
				all[i].failed)
		}
		p50 := quantileOf(all[0].values, .5)
		targets = append(targets,
			target{
				"key " + way.name + ", told after, p50", msOf(p50), "≤ a heartbeat",
				p50 <= ms(toldTTL/3),
			})
		o.plots.add("told-"+way.name, "The key is "+way.name+": told after, p50", "ms",
			byContender(all, func(s *sample) float64 { return quantileOf(s.values, .5) }))
	}
	out := &printer{w: w}
	out.printf("\n## A key is taken away: when its holder is told\n\n%s", t)
	return targets, out.err
}

// toldOfServer measures when a holder is told that a server does not
// answer any more, from when its key could expire.
func toldOfServer(ctx context.Context, o options, w io.Writer) ([]target, error) {
	rounds := o.rounds
	if o.short {
		rounds = 1
	}
	all := make([]sample, len(contenders))
	for round := range rounds {
		everyone(all, func(i int) error {
			return stoppedOnce(ctx, contenders[i], fmt.Sprintf("stopped:%d", round), &all[i])
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	t := table{{"", "told, from the key's expiry: median", "latest", "times", ""}}
	for i, who := range contenders {
		t.add(who, msOf(all[i].median()), msOf(all[i].worst()), fmt.Sprint(len(all[i].values)),
			all[i].failed)
	}
	out := &printer{w: w}
	out.printf("\n## Redis is stopped: when the holder is told, TTL %v (negative: before the key "+
		"can expire)\n\n%s", toldTTL, t)
	worst := all[0].worst()
	return []target{{
		"Redis stopped, told at the latest", msOf(worst), "before the expiry",
		worst < 0 && all[0].failed == "",
	}}, out.err
}

// everyone lets all libraries wait at the same time, which takes no processor.
func everyone(all []sample, do func(i int) error) {
	_ = together(len(contenders), func(i int) error {
		all[i].fail(within(3*capped, func() error { return do(i) }))
		return nil // a library that fails is shown, and stops no other
	})
}

func stoppedOnce(ctx context.Context, who, name string, into *sample) error {
	server, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	return toldOnce(ctx, server, who, name, into, func(key string) (time.Time, error) {
		at, err := expiry(server, key)
		if err != nil {
			return at, err
		}
		// A heartbeat in between moves the expiry on, and makes who
		// is told early seem late, never the other way round.
		return at, server.Stop()
	})
}

// toldOnce takes a lock away by seize, and measures from the instant that seize returns.
func toldOnce(
	ctx context.Context, server *redistest.Server, who, name string, into *sample,
	seize func(key string) (time.Time, error),
) error {
	c, err := newContender(who, deployment{addr: server.Addr()}, toldTTL)
	if err != nil {
		return err
	}
	defer func() { _ = within(endWithin, func() error { c.close(); return nil }) }()
	held, let, err := locked(ctx, c.mutex(name), toldTTL)
	if err != nil {
		return err
	}
	key, err := leaseKey(server, name)
	if err != nil {
		return err
	}
	time.Sleep(100*time.Millisecond + rand.N(toldTTL/2)) // at any phase of the heartbeat
	from, err := seize(key)
	if err != nil {
		return err
	}
	timer := time.NewTimer(time.Until(from) + capped)
	defer timer.Stop()
	select {
	case <-held.Done():
		into.add(ms(time.Since(from)))
	case <-timer.C:
		into.add(math.Inf(1))
	}
	if err := server.Cont(); err != nil {
		return err
	}
	_ = within(2*endWithin, let) // it is lost: what the library makes of that is not the question
	return nil
}
