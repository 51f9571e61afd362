package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// cycling is what one library reached in all rounds of a case.
type cycling struct {
	rate, ratio, allocs, client, redis sample
	times                              histogram
}

// cycleRound is a round in slices, as in oneRound. A library that
// fails is out of the case from then on, and shown as such.
func cycleRound(
	ctx context.Context, server *redistest.Server, all []cycler, results []cycling, goroutines int,
	span time.Duration,
) error {
	round := make([]sums, len(all))
	for turn := range turns {
		for i := range all {
			i = (i + turn) % len(all)
			r := &results[i]
			if r.rate.failed != "" {
				continue
			}
			err := measureCycles(server, &round[i], &r.times, func(times *histogram) error {
				bounded, cancel := context.WithTimeout(ctx, span/turns+endWithin)
				defer cancel()
				return within(span/turns+2*endWithin, func() error {
					return runCycles(bounded, all[i], goroutines, span/turns, times)
				})
			})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && i == 0 {
				return fmt.Errorf("%s, %d goroutines: %w", all[i].who, goroutines, err)
			}
			r.rate.fail(err)
		}
	}
	for i := range all {
		r, s := &results[i], &round[i]
		if r.rate.failed != "" {
			continue
		}
		r.rate.add(s.rate())
		r.ratio.add(s.rate() / round[0].rate())
		r.allocs.add(s.per(float64(s.allocs)))
		r.client.add(s.per(s.client.Seconds() * 1e6))
		r.redis.add(s.per(s.redis.Seconds() * 1e6))
	}
	return nil
}

func cyclingTable(all []cycler, results []cycling) table {
	t := table{{
		"", "÷ floor", "cycles/s", "p50", "p99", "allocs a cycle", "client CPU µs a cycle",
		"Redis CPU µs a cycle", "",
	}}
	for i := range all {
		r := &results[i]
		t.add(all[i].who, fmt.Sprintf("%.2f", r.ratio.median()),
			fmt.Sprintf("%.0f", r.rate.median()),
			r.times.quantile(.5).Round(time.Microsecond).String(),
			r.times.quantile(.99).Round(time.Microsecond).String(),
			fmt.Sprintf("%.1f", r.allocs.median()), fmt.Sprintf("%.1f",
				r.client.median()), fmt.Sprintf("%.1f", r.redis.median()), r.rate.failed)
	}
	return t
}

func resultOf(who string, all []cycler, results []cycling) *cycling {
	for i := range all {
		if all[i].who == who {
			return &results[i]
		}
	}
	return new(cycling)
}

// What the issue asks of cycles.
func cyclingTargets(goroutines int, all []cycler, results []cycling) []target {
	row := fmt.Sprintf("acquire + release, goroutines: %d, ", goroutines)
	ours := resultOf(lockbeat, all, results)
	const floorLeast, lone, crowded, allocsMost = 0.9, 1.2, 1.5, 10
	beside, least := "redsync and rueidislock", lone
	against := []string{peer, redsyncRueidis, redsyncGoRedis}
	if goroutines > 1 {
		beside, least, against = "the best peer", crowded, contenders[1:]
	}
	best := 0.0
	for _, who := range against {
		best = max(best, resultOf(who, all, results).rate.median())
	}
	factor := ours.rate.median() / max(best, 1)
	targets := []target{
		{
			row + "to the floor", fmt.Sprintf("%.2f", ours.ratio.median()), "≥ 0.9",
			ours.ratio.median() >= floorLeast,
		},
		{
			row + "to " + beside, fmt.Sprintf("%.2f", factor), fmt.Sprintf("≥ %.1f", least),
			factor >= least,
		},
	}
	if goroutines == 1 {
		targets = append(targets, target{
			row + "allocations", fmt.Sprintf("%.1f", ours.allocs.median()), "≤ 10",
			ours.allocs.median() > 0 && ours.allocs.median() <= allocsMost,
		})
	}
	return targets
}
