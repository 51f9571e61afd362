package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// sums are what one contestant did and used in one round.
type sums struct {
	cycles int
	took   time.Duration
	allocs uint64        // of the whole process
	client time.Duration // processor time of this process
	redis  time.Duration // processor time of the server
}

func (s *sums) rate() float64 { return float64(s.cycles) / s.took.Seconds() }

// per is a figure a cycle.
func (s *sums) per(figure float64) float64 { return figure / float64(max(s.cycles, 1)) }

// figures are all rounds of one contestant.
type figures struct {
	rounds []sums
	ratios []float64 // to the floor, in the same round
	times  histogram
}

// turns is into how many parts a round is cut, in which the contestants take turns: what
// else the machine does changes within a second or two, and should hit all of them alike.
const turns = 10

// cycles measures acquire + release, each goroutine on a key of its
// own, fencing on, the contestants taking turns.
func cycles(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	contestants, closeAll, err := newCyclers(ctx, server.Addr())
	if err != nil {
		return nil, err
	}
	defer closeAll()
	span, rounds := 2*time.Second, max(o.rounds, 5)
	if o.short {
		span, rounds = 100*time.Millisecond, 2
	}
	out := &printer{w: w}
	var targets []target
	for _, goroutines := range []int{64, 1, 1024} {
		// to warm up
		if err := oneRound(ctx, server, contestants, make([]figures, len(contestants)), goroutines,
			span); err != nil {
			return nil, err
		}
		all := make([]figures, len(contestants))
		for range rounds {
			if err := oneRound(ctx, server, contestants, all, goroutines, span); err != nil {
				return nil, err
			}
		}
		out.printf("\n## acquire + release, goroutines: %d, a key each, fencing on (medians of "+
			"%d rounds of %v)\n\n%s",
			goroutines, rounds, span, cycleTable(contestants, all))
		if goroutines == 64 {
			const least = 0.8
			reached := median(all[1].ratios)
			targets = append(targets, target{
				"acquire + release, 64 goroutines", fmt.Sprintf("%.2f × %s", reached, floor),
				"≥ 0.8", reached >= least,
			})
			if err := profileCycles(ctx, o, contestants[:2], goroutines, span); err != nil {
				return nil, err
			}
		}
	}
	return targets, out.err
}

// oneRound lets every contestant run for a span, in slices, in an
// order that turns, so that none always follows the same one.
func oneRound(
	ctx context.Context, server *redistest.Server, contestants []cycler, all []figures,
	goroutines int, span time.Duration,
) error {
	round := make([]sums, len(contestants))
	for turn := range turns {
		for i := range contestants {
			i = (i + turn) % len(contestants)
			err := measureCycles(server, &round[i], &all[i].times, func(times *histogram) error {
				return runCycles(ctx, contestants[i], goroutines, span/turns, times)
			})
			if err != nil {
				return fmt.Errorf("%s, %d goroutines: %w", contestants[i].who, goroutines, err)
			}
		}
	}
	for i := range all {
		all[i].rounds = append(all[i].rounds, round[i])
		all[i].ratios = append(all[i].ratios, round[i].rate()/round[0].rate())
	}
	return nil
}

// measureCycles adds what run does and uses.
func measureCycles(
	server *redistest.Server, to *sums, times *histogram, run func(*histogram) error,
) error {
	redisBefore, err := serverCPU(server)
	if err != nil {
		return err
	}
	clientBefore, err := cpuTime()
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var own histogram
	begun := time.Now()
	if err := run(&own); err != nil {
		return err
	}
	to.took += time.Since(begun)
	runtime.ReadMemStats(&after)
	clientAfter, err := cpuTime()
	if err != nil {
		return err
	}
	redisAfter, err := serverCPU(server)
	if err != nil {
		return err
	}
	to.cycles += own.total
	to.allocs += after.Mallocs - before.Mallocs
	to.client += clientAfter - clientBefore
	to.redis += redisAfter - redisBefore
	times.merge(&own)
	return nil
}

// runCycles runs a number of goroutines for a time, and ends early if one fails.
func runCycles(
	ctx context.Context, c cycler, goroutines int, span time.Duration, times *histogram,
) error {
	var over atomic.Bool
	timer := time.AfterFunc(span, func() { over.Store(true) })
	defer timer.Stop()
	failures := make([]error, goroutines)
	var mu sync.Mutex // guards times
	var wg sync.WaitGroup
	for number := range goroutines {
		wg.Go(func() {
			one := c.worker(number)
			own := new(histogram)
			for !over.Load() && ctx.Err() == nil {
				begun := time.Now()
				if err := one(ctx); err != nil {
					failures[number] = err
					over.Store(true)
					return
				}
				own.record(time.Since(begun))
			}
			mu.Lock()
			times.merge(own)
			mu.Unlock()
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(failures...), ctx.Err())
}

func cycleTable(contestants []cycler, all []figures) table {
	t := table{{
		"", "cycles/s", "÷ floor", "lowest, highest", "p50", "p99", "allocs a cycle",
		"client CPU µs a cycle", "Redis CPU µs a cycle",
	}}
	for i := range all {
		f := &all[i]
		of := func(format string, figure func(*sums) float64) string {
			values := make([]float64, len(f.rounds))
			for r := range f.rounds {
				values[r] = figure(&f.rounds[r])
			}
			return fmt.Sprintf(format, median(values))
		}
		t.add(contestants[i].who, of("%.0f", (*sums).rate),
			fmt.Sprintf("%.2f", median(f.ratios)),
			fmt.Sprintf("%.2f, %.2f", slices.Min(f.ratios), slices.Max(f.ratios)),
			f.times.quantile(.5).Round(time.Microsecond).String(),
			f.times.quantile(.99).Round(time.Microsecond).String(),
			of("%.1f", func(s *sums) float64 { return s.per(float64(s.allocs)) }),
			of("%.1f", func(s *sums) float64 { return s.per(s.client.Seconds() * 1e6) }),
			of("%.1f", func(s *sums) float64 { return s.per(s.redis.Seconds() * 1e6) }))
	}
	return t
}

// profileCycles runs each contestant once more under the profiler, if asked to.
func profileCycles(
	ctx context.Context, o options, contestants []cycler, goroutines int, span time.Duration,
) error {
	if o.profile == "" {
		return nil
	}
	for _, c := range contestants {
		p, err := startProfile(o.profile, "cycles-"+c.who, "allocs")
		if err != nil {
			return err
		}
		err = runCycles(ctx, c, goroutines, 5*span, new(histogram))
		if err := errors.Join(err, p.stop()); err != nil {
			return err
		}
	}
	return nil
}
