package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// overhead measures what lockmw.Do adds to the lease itself: both on the
// memory store, where nothing else takes time, with no observer. The lease is
// acquired with no options at all, as the least that anybody could do instead.
func overhead(ctx context.Context, o options, w io.Writer) ([]target, error) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		return nil, err
	}
	defer func() { _ = k.Shutdown(context.WithoutCancel(ctx)) }() // every lease is released
	pairs := 100 * o.rounds
	if o.short {
		pairs = 20
	}
	bare, do := bareCall(k), doCall(k)
	var bareTimes, doTimes, more []float64
	for range pairs {
		b, err := timeCall(ctx, bare)
		if err != nil {
			return nil, err
		}
		d, err := timeCall(ctx, do)
		if err != nil {
			return nil, err
		}
		bareTimes, doTimes, more = append(bareTimes, b), append(doTimes, d), append(more, d-b)
	}
	bareAllocs, err := countAllocs(ctx, bare)
	if err != nil {
		return nil, err
	}
	doAllocs, err := countAllocs(ctx, do)
	if err != nil {
		return nil, err
	}
	t := table{{"", "ns", "allocs"}}
	t.add("Acquire + Release", fmt.Sprintf("%.0f", median(bareTimes)),
		fmt.Sprintf("%.0f", bareAllocs))
	t.add("lockmw.Do", fmt.Sprintf("%.0f", median(doTimes)), fmt.Sprintf("%.0f", doAllocs))
	t.add("above the lease", fmt.Sprintf("%.0f", median(more)),
		fmt.Sprintf("%.0f", doAllocs-bareAllocs))
	out := &printer{w: w}
	out.printf("\n## lockmw.Do above the lease itself, memory store, no observer (medians of %d "+
		"pairs of %d calls)\n\n%s", pairs, callsTimed, t)
	const nsMost, allocsMost = float64(time.Microsecond), 4
	return []target{
		{
			"lockmw.Do above the lease, time", fmt.Sprintf("%.0f ns", median(more)), "≤ 1 µs",
			median(more) <= nsMost,
		},
		{
			"lockmw.Do above the lease, allocations", fmt.Sprintf("%.0f", doAllocs-bareAllocs),
			"≤ 4",
			doAllocs-bareAllocs <= allocsMost,
		},
	}, out.err
}

// callsTimed take about a millisecond: too short for most of what else the machine
// does, and long for the clock. So pairs of them differ by what the calls cost,
// but for a few that the median leaves out; rounds of a second would all be hit.
const callsTimed = 250

func timeCall(ctx context.Context, call func(context.Context) error) (ns float64, err error) {
	begun := time.Now()
	for range callsTimed {
		if err := call(ctx); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begun).Nanoseconds()) / callsTimed, ctx.Err()
}

func countAllocs(ctx context.Context, call func(context.Context) error) (float64, error) {
	const calls = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if err := call(ctx); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	// the keeper's own loops add a few
	return math.Floor(float64(after.Mallocs-before.Mallocs) / calls), nil
}

func bareCall(k *renewer.Keeper) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := k.Acquire(ctx, "order:42")
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func doCall(k *renewer.Keeper) func(context.Context) error {
	charge := func(context.Context) (int, error) { return 1, nil }
	return func(ctx context.Context) error {
		_, err := lockmw.Do(ctx, k, "order:42", charge)
		return err
	}
}
