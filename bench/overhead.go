package main

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// overhead measures what lockmw.Do adds to the lease itself: both on the memory store, where nothing else takes time, with no
// observer. The lease is acquired with no options at all, as the least that anybody could do instead.
func overhead(ctx context.Context, o options, w io.Writer) ([]target, error) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		return nil, err
	}
	defer func() { _ = k.Shutdown(context.WithoutCancel(ctx)) }() // every lease is released
	bare := func(b *testing.B) { benchLease(b, k) }
	wrapped := func(b *testing.B) { benchDo(b, k) }
	rounds := o.rounds
	if o.short {
		rounds = 1
	}
	var bareTimes, doTimes, differences, bareAllocs, doAllocs []float64
	for range rounds {
		l, d := testing.Benchmark(bare), testing.Benchmark(wrapped)
		if l.N == 0 || d.N == 0 {
			return nil, fmt.Errorf("a benchmark failed")
		}
		bareTimes, doTimes = append(bareTimes, perOp(l)), append(doTimes, perOp(d))
		differences = append(differences, perOp(d)-perOp(l))
		bareAllocs, doAllocs = append(bareAllocs, allocs(l)), append(doAllocs, allocs(d))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	more, moreAllocs := median(differences), median(doAllocs)-median(bareAllocs)
	t := table{{"", "ns", "allocs"}}
	t.add("Acquire + Release", fmt.Sprintf("%.0f", median(bareTimes)), fmt.Sprintf("%.0f", median(bareAllocs)))
	t.add("lockmw.Do", fmt.Sprintf("%.0f", median(doTimes)), fmt.Sprintf("%.0f", median(doAllocs)))
	t.add("above the lease", fmt.Sprintf("%.0f", more), fmt.Sprintf("%.0f", moreAllocs))
	out := &printer{w: w}
	out.printf("\n## lockmw.Do above the lease itself, memory store, no observer (medians of %d rounds in turn)\n\n%s", rounds, t)
	const nsMost, allocsMost = float64(time.Microsecond), 4
	return []target{
		{"lockmw.Do above the lease, time", fmt.Sprintf("%.0f ns", more), "≤ 1 µs", more <= nsMost},
		{"lockmw.Do above the lease, allocations", fmt.Sprintf("%.0f", moreAllocs), "≤ 4", moreAllocs <= allocsMost},
	}, out.err
}

func perOp(r testing.BenchmarkResult) float64  { return float64(r.T.Nanoseconds()) / float64(r.N) }
func allocs(r testing.BenchmarkResult) float64 { return float64(r.MemAllocs) / float64(r.N) }

func benchLease(b *testing.B, k *renewer.Keeper) {
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := k.Acquire(ctx, "order:42")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func benchDo(b *testing.B, k *renewer.Keeper) {
	ctx := context.Background()
	charge := func(context.Context) (int, error) { return 1, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lockmw.Do(ctx, k, "order:42", charge); err != nil {
			b.Fatal(err)
		}
	}
}
