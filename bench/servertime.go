package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// serverTime measures what a cycle takes of the server's processor, without what reading and
// writing many small packets adds: pipelines of many commands, from one connection.
func serverTime(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	r, err := newRaw(ctx, server.Addr(), pipelined, cycleTTL)
	if err != nil {
		return nil, err
	}
	defer r.client.Close()
	kinds, err := r.cycleKinds(ctx)
	if err != nil {
		return nil, err
	}
	rounds, span := 4*o.rounds, 100*time.Millisecond
	if o.short {
		rounds, span = 1, 10*time.Millisecond
	}
	for range rounds { // they take turns, and the quickest round of each counts
		for _, kind := range kinds {
			if err := kind.measure(ctx, r.client, server, span); err != nil {
				return nil, fmt.Errorf("%s: %w", kind.what, err)
			}
		}
	}
	t := table{{"", "Redis CPU µs a cycle", "÷ " + byHand}}
	for _, kind := range kinds {
		t.add(kind.what, fmt.Sprintf("%.1f", kind.least),
			fmt.Sprintf("%.2f", kind.least/kinds[0].least))
	}
	out := &printer{w: w}
	out.printf("\n## What the server's time goes to (the least of %d rounds of %v)\n\n%s", rounds,
		span, t)
	return nil, out.err
}

// cycleKind is one way to take locks and to free them.
type cycleKind struct {
	what  string
	locks int // of one pipeline
	make  func() []rueidis.Completed
	least float64 // µs a lock
}

func (c *cycleKind) measure(
	ctx context.Context, client rueidis.Client, server *redistest.Server, span time.Duration,
) error {
	before, err := serverCPU(server)
	if err != nil {
		return err
	}
	cycles := 0
	for begun := time.Now(); time.Since(begun) < span; cycles += c.locks {
		for _, r := range client.DoMulti(ctx, c.make()...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
	}
	after, err := serverCPU(server)
	c.least = min(c.least, (after-before).Seconds()*1e6/float64(cycles))
	return err
}

// shared is how many locks share a call of a script, where callers meet.
const shared = 8

// cycleKinds are all of them, that by hand first. An empty script and one that reads the clock show
// what every script costs, and a function of Redis 7 what a script would cost as one.
func (r *raw) cycleKinds(ctx context.Context) ([]*cycleKind, error) {
	client := r.client
	var scripts [3]func([]rawLock) rueidis.Completed
	for i, text := range []string{compareAndDelete, "return 1", "return redis.call('TIME')[1]"} {
		sha, err := client.Do(ctx, client.B().ScriptLoad().Script(text).Build()).ToString()
		if err != nil {
			return nil, fmt.Errorf("SCRIPT LOAD: %w", err)
		}
		scripts[i] = func(l []rawLock) rueidis.Completed {
			return client.B().Evalsha().Sha1(sha).Numkeys(1).Key(l[0].lease).Arg(l[0].owner).Build()
		}
	}
	free, empty, clock := scripts[0], scripts[1], scripts[2]
	take := func(l []rawLock) rueidis.Completed {
		return client.B().Set().Key(l[0].lease).Value(l[0].owner).Nx().Px(cycleTTL).Build()
	}
	kinds := []*cycleKind{
		{what: byHand, make: r.pipeline(1, take, free)},
		{what: ourScripts, make: r.pipeline(1, r.acquiring, r.releasing)},
		{
			what: fmt.Sprintf("our scripts, %d locks to a call", shared),
			make: r.pipeline(shared, r.acquiring, r.releasing),
		},
		{what: "two empty scripts", make: r.pipeline(1, empty, empty)},
		{what: "two that read the clock", make: r.pipeline(1, clock, clock)},
	}
	const library = "#!lua name=bench\nredis.register_function('bench', function() return 1 end)"
	// Redis 6 has no functions.
	if client.Do(ctx, client.B().FunctionLoad().Replace().FunctionCode(library).Build()).Error() ==
		nil {
		call := func(l []rawLock) rueidis.Completed {
			return client.B().Fcall().Function("bench").Numkeys(1).Key(l[0].lease).
				Arg(l[0].owner).Build()
		}
		kinds = append(kinds, &cycleKind{
			what: "two empty functions", make: r.pipeline(1, call, call),
		})
	}
	for _, kind := range kinds {
		kind.locks, kind.least = pipelineLocks, math.Inf(1)
	}
	return kinds, nil
}

// pipelineLocks is how many locks are taken and freed by one pipeline.
const pipelineLocks = 6 * shared

// pipeline returns what makes the commands that take locks, some to a call, and then free them.
func (r *raw) pipeline(
	atOnce int, acquire, release func([]rawLock) rueidis.Completed,
) func() []rueidis.Completed {
	locks := make([]rawLock, pipelineLocks)
	for i := range locks {
		locks[i] = r.lock("server:"+leaseName(i), i)
	}
	return func() (commands []rueidis.Completed) {
		for _, step := range []func([]rawLock) rueidis.Completed{acquire, release} {
			for i := 0; i < len(locks); i += atOnce {
				commands = append(commands, step(locks[i:i+atOnce]))
			}
		}
		return commands
	}
}

func (r *raw) acquiring(locks []rawLock) rueidis.Completed {
	args := []string{r.ttl, r.fenceTTL, markKey, noLines}
	for _, l := range locks {
		args = append(args, l.owner, noPlace, r.holder)
	}
	return r.call(r.scripts.acquire, locks, args)
}

func (r *raw) releasing(locks []rawLock) rueidis.Completed {
	args := []string{keepFor, r.free}
	for _, l := range locks {
		args = append(args, l.owner)
	}
	return r.call(r.scripts.release, locks, args)
}

func (r *raw) call(s script, locks []rawLock, args []string) rueidis.Completed {
	keys := make([]string, len(locks))
	for i, l := range locks {
		keys[i] = l.lease
	}
	return r.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).
		Build()
}
