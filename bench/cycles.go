package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A cycler takes and frees a lock, over and over.
type cycler struct {
	who string
	// worker makes one cycle for a goroutine of its own, on a key of its own.
	worker func(number int) (cycle func(context.Context) error)
	close  func()
}

// cycle is how fast one contestant was in one round.
type cycle struct {
	rate     float64 // cycles a second
	allocs   float64 // a cycle, in the whole process
	client   float64 // CPU us a cycle
	redisCPU float64 // CPU us a cycle
}

// figures are all rounds of one contestant.
type figures struct {
	rounds []cycle
	ratios []float64 // to the floor, in the same round
	times  histogram
}

const cycleTTL = 10 * time.Second

// cycles measures acquire + release, each goroutine on a key of its own, fencing on, the contestants taking turns.
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
		all := make([]figures, len(contestants))
		for round := -1; round < rounds; round++ { // the first is to warm up
			if err := oneRound(ctx, server, contestants, all, goroutines, span, round >= 0); err != nil {
				return nil, err
			}
		}
		out.printf("\n## acquire + release, goroutines: %d, a key each, fencing on (medians of %d rounds of %v)\n\n%s",
			goroutines, rounds, span, cycleTable(contestants, all))
		if goroutines == 64 {
			const least = 0.8
			reached := median(all[1].ratios)
			targets = append(targets, target{
				"acquire + release, 64 goroutines", fmt.Sprintf("%.2f × %s", reached, floor), "≥ 0.8", reached >= least,
			})
			if err := profileCycles(ctx, o, contestants[:2], goroutines, span); err != nil {
				return nil, err
			}
		}
	}
	return targets, out.err
}

// newCyclers makes the contestants, the floor first and Lockbeat second.
func newCyclers(ctx context.Context, addr string) (all []cycler, closeAll func(), err error) {
	closeAll = func() {
		for _, c := range all {
			c.close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	for _, newOne := range []func(context.Context, string) (cycler, error){rawCycler, keeperCycler, peerCycler} {
		c, err := newOne(ctx, addr)
		if err != nil {
			return all, closeAll, err
		}
		all = append(all, c)
	}
	return all, closeAll, nil
}

func rawCycler(ctx context.Context, addr string) (cycler, error) {
	r, err := newRaw(ctx, addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{floor, func(number int) func(context.Context) error {
		l := r.lock("floor:"+leaseName(number), number)
		return func(ctx context.Context) error {
			if err := r.acquire(ctx, &l); err != nil {
				return err
			}
			return r.release(ctx, &l)
		}
	}, r.client.Close}, nil
}

func keeperCycler(_ context.Context, addr string) (cycler, error) {
	k, err := newKeeper(addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{lockbeat, func(number int) func(context.Context) error {
		name := leaseName(number)
		return func(ctx context.Context) error {
			l, err := k.Acquire(ctx, name)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}
	}, func() {
		_ = k.Shutdown(context.Background()) // every lease is released
	}}, nil
}

func peerCycler(_ context.Context, addr string) (cycler, error) {
	l, err := newLocker(addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{peer, func(number int) func(context.Context) error {
		name := leaseName(number)
		return func(ctx context.Context) error {
			_, release, err := l.WithContext(ctx, name)
			if err != nil {
				return err
			}
			release()
			return nil
		}
	}, l.Close}, nil
}

// oneRound lets every contestant run once, in an order that turns with the rounds, so that none always follows the same one.
func oneRound(
	ctx context.Context, server *redistest.Server, contestants []cycler, all []figures, goroutines int, span time.Duration, counts bool,
) error {
	round := len(all[0].rounds)
	for i := range contestants {
		i = (i + round) % len(contestants)
		var times histogram
		c, err := measureCycles(ctx, server, contestants[i], goroutines, span, &times)
		if err != nil {
			return fmt.Errorf("%s, %d goroutines: %w", contestants[i].who, goroutines, err)
		}
		if counts {
			all[i].rounds = append(all[i].rounds, c)
			all[i].times.merge(&times)
		}
	}
	for i := range all {
		if counts {
			all[i].ratios = append(all[i].ratios, all[i].rounds[round].rate/all[0].rounds[round].rate)
		}
	}
	return nil
}

func measureCycles(
	ctx context.Context, server *redistest.Server, c cycler, goroutines int, span time.Duration, times *histogram,
) (cycle, error) {
	redisBefore, err := serverCPU(server)
	if err != nil {
		return cycle{}, err
	}
	clientBefore, err := cpuTime()
	if err != nil {
		return cycle{}, err
	}
	var memBefore, memAfter runtime.MemStats
	runtime.ReadMemStats(&memBefore)
	begun := time.Now()
	if err := runCycles(ctx, c, goroutines, span, times); err != nil {
		return cycle{}, err
	}
	took := time.Since(begun)
	runtime.ReadMemStats(&memAfter)
	clientAfter, err := cpuTime()
	if err != nil {
		return cycle{}, err
	}
	redisAfter, err := serverCPU(server)
	if err != nil {
		return cycle{}, err
	}
	n := float64(max(times.total, 1))
	micros := func(d time.Duration) float64 { return d.Seconds() * 1e6 / n }
	return cycle{
		rate: n / took.Seconds(), allocs: float64(memAfter.Mallocs-memBefore.Mallocs) / n,
		client: micros(clientAfter - clientBefore), redisCPU: micros(redisAfter - redisBefore),
	}, nil
}

// runCycles runs a number of goroutines for a time, and ends early if one fails.
func runCycles(ctx context.Context, c cycler, goroutines int, span time.Duration, times *histogram) error {
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
	return errors.Join(append(failures, ctx.Err())...)
}

func cycleTable(contestants []cycler, all []figures) table {
	t := table{{"", "cycles/s", "÷ floor", "lowest, highest", "p50", "p99", "allocs a cycle", "client CPU µs a cycle", "Redis CPU µs a cycle"}}
	for i := range all {
		f := &all[i]
		of := func(field func(cycle) float64) float64 {
			values := make([]float64, len(f.rounds))
			for r, c := range f.rounds {
				values[r] = field(c)
			}
			return median(values)
		}
		lowest, highest := f.ratios[0], f.ratios[0]
		for _, r := range f.ratios {
			lowest, highest = min(lowest, r), max(highest, r)
		}
		t.add(contestants[i].who, fmt.Sprintf("%.0f", of(func(c cycle) float64 { return c.rate })),
			fmt.Sprintf("%.2f", median(f.ratios)), fmt.Sprintf("%.2f, %.2f", lowest, highest),
			f.times.quantile(.5).Round(time.Microsecond).String(), f.times.quantile(.99).Round(time.Microsecond).String(),
			fmt.Sprintf("%.1f", of(func(c cycle) float64 { return c.allocs })),
			fmt.Sprintf("%.1f", of(func(c cycle) float64 { return c.client })),
			fmt.Sprintf("%.1f", of(func(c cycle) float64 { return c.redisCPU })))
	}
	return t
}

// profileCycles runs each contestant once more under the profiler, if asked to.
func profileCycles(ctx context.Context, o options, contestants []cycler, goroutines int, span time.Duration) error {
	if o.profile == "" {
		return nil
	}
	for _, c := range contestants {
		p, err := startProfile(o.profile, "cycles-"+c.who, "allocs")
		if err != nil {
			return err
		}
		err = runCycles(ctx, c, goroutines, 2*span, new(histogram))
		if err := errors.Join(err, p.stop()); err != nil {
			return err
		}
	}
	return nil
}
