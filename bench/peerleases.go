package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// unheld bounds what a holder may take besides the hold itself.
const unheld = 3 * time.Minute

// peerLeases holds many leases with every library, each in a process and on a server of its own.
func peerLeases(ctx context.Context, o options, w io.Writer) ([]target, error) {
	s := childSpec{Leases: 100_000, TTL: 10 * time.Second, Hold: 30 * time.Second}
	if o.short {
		s.Leases, s.TTL, s.Hold = 1000, 2*time.Second, time.Second
	}
	all, failures, err := holdAll(ctx, s, append([]string{floor}, contenders...))
	if err != nil {
		return nil, err
	}
	out := &printer{w: w}
	out.printf("\n## %d leases held by one process, TTL %v, for %v\n\n%s", s.Leases, s.TTL, s.Hold,
		holdTable(all))
	for _, f := range failures {
		out.printf("\n%s\n", f)
	}
	find := func(who string) *holding {
		for _, h := range all {
			if h.who == who {
				return h
			}
		}
		return &holding{}
	}
	o.plots.add("hold-cpu", fmt.Sprintf("%d leases, TTL %v, %v: client CPU", s.Leases, s.TTL,
		s.Hold), "s",
		func(who string) float64 { return find(who).kept.CPU.Seconds() })
	o.plots.add("hold-rss", fmt.Sprintf("%d leases: peak RSS", s.Leases), "MB",
		func(who string) float64 { return float64(find(who).PeakRSS) / mebibyte })
	ours, theirs := find(lockbeat), find(peer)
	row := fmt.Sprintf("%d leases, ", s.Leases)
	return append(holdTargets(row, ours, theirs), target{
		row + "not got or lost", fmt.Sprint(ours.Failed + ours.Lost), "0",
		ours.Failed+ours.Lost == 0,
	}), out.err
}

// holdAll holds with one after another. Only the floor and Lockbeat
// must succeed: others may fail, which is told.
func holdAll(
	ctx context.Context, s childSpec, who []string,
) (all []*holding, failures []string, err error) {
	for _, s.Who = range who {
		s.Way = holdingWay(s.Who)
		bounded, cancel := context.WithTimeout(ctx, s.Hold+unheld)
		h, err := hold(bounded, s)
		cancel()
		switch {
		case err == nil:
			all = append(all, h)
		case s.Who == floor || s.Who == lockbeat || ctx.Err() != nil:
			return nil, nil, fmt.Errorf("%s: %w", s.Who, err)
		default:
			failures = append(failures, fmt.Sprintf("%s failed: %s", s.Who, brief(err.Error())))
		}
	}
	return all, failures, nil
}

// million holds a million leases, which only Lockbeat is asked for.
func million(ctx context.Context, o options, w io.Writer) ([]target, error) {
	// The limit is what a user with 600 MB for the process would set: see docs/benchmarks-peers.md.
	s := childSpec{
		Who: lockbeat, Leases: 1_000_000, TTL: 30 * time.Second, Hold: 2 * time.Minute,
		Memory: 560 * mebibyte,
	}
	if o.short {
		s.Leases, s.TTL, s.Hold = 2000, 2*time.Second, time.Second
	}
	all, _, err := holdAll(ctx, s, []string{lockbeat})
	if err != nil {
		return nil, err
	}
	h, out := all[0], &printer{w: w}
	t := table{{
		"lost", "not got", "heap B a lease", "peak RSS MB", "goroutines, peak", "client CPU s",
		"Redis CPU s",
		"renewals/s", "PING p50", "PING p99", "acquired in s",
	}}
	perLease := h.Heap / int64(s.Leases)
	t.add(fmt.Sprint(h.Lost), fmt.Sprint(h.Failed), fmt.Sprint(perLease),
		fmt.Sprint(h.PeakRSS/mebibyte),
		fmt.Sprint(h.Goroutines), seconds(h.kept.CPU),
		seconds(h.redisCPU), fmt.Sprintf("%.0f",
			h.rate()), h.ping.quantile(.5).String(), h.ping.quantile(.99).String(), seconds(h.Took))
	out.printf("\n## %d leases held by one process, TTL %v, for %v: Lockbeat, "+
		"GOMEMLIMIT=%dMiB\n\n%s", s.Leases, s.TTL, s.Hold,
		s.Memory/mebibyte, t)
	const heapMost, goroutinesMost, pingMost, onTimeLeast = 240, 10, time.Millisecond, 0.95
	onTime := h.rate() * (s.TTL / 3).Seconds() / float64(s.Leases)
	row := fmt.Sprintf("%d leases, ", s.Leases)
	return []target{
		{row + "not got or lost", fmt.Sprint(h.Failed + h.Lost), "0", h.Failed+h.Lost == 0},
		{
			row + "live heap a lease", fmt.Sprintf("%d B", perLease), "≤ 240 B",
			perLease <= heapMost,
		},
		{
			row + "renewals, of one each third of the TTL", fmt.Sprintf("%.2f", onTime), "≥ 0.95",
			onTime >= onTimeLeast,
		},
		{row + "goroutines", fmt.Sprint(h.Goroutines), "≤ 10", h.Goroutines <= goroutinesMost},
		{row + "PING p99 meanwhile", h.ping.quantile(.99).String(), "≤ 1 ms", h.ping.total > 0 &&
			h.ping.quantile(.99) <= pingMost},
	}, out.err
}

// scale measures what a renewal costs with few leases and with many:
// the median of rounds, since the machine is not as fast at all times.
func scale(ctx context.Context, o options, w io.Writer) ([]target, error) {
	// Each is renewed at the same pace but the last, whose pace is what the
	// processors of a small machine can do. The first two are measured for longer:
	// in 20 s a thousand leases take less time than the idle processes' varies by.
	rounds, specs := min(o.rounds, 3), []childSpec{
		{Leases: 1, TTL: 10 * time.Second, Hold: 40 * time.Second},
		{Leases: 1000, TTL: 10 * time.Second, Hold: 40 * time.Second},
		{Leases: 10_000, TTL: 10 * time.Second, Hold: 20 * time.Second},
		{Leases: 100_000, TTL: 10 * time.Second, Hold: 20 * time.Second},
		{Leases: 1_000_000, TTL: 30 * time.Second, Hold: 30 * time.Second},
	}
	if o.short {
		rounds, specs = 1, []childSpec{
			{Leases: 1, TTL: time.Second, Hold: time.Second},
			{Leases: 500, TTL: time.Second, Hold: time.Second},
			{Leases: 1000, TTL: time.Second, Hold: time.Second},
		}
	}
	all := make([]scaled, len(specs))
	for range rounds {
		for i, s := range specs {
			one, _, err := holdAll(ctx, s, []string{lockbeat})
			if err != nil {
				return nil, err
			}
			all[i].add(one[0], s.Hold)
		}
	}
	// What the two processes take anyway, with one lease, is not for
	// renewals: for PINGs, the collector, the runtime's own timers.
	idle, all, specs := all[0], all[1:], specs[1:]
	var costs []float64
	for _, c := range all {
		costs = append(costs, (median(c.client)-median(idle.client))/median(c.renewals))
	}
	least, most := quantileOf(costs, 0), quantileOf(costs, 1)
	t := table{{
		"leases", "TTL", "renewals/s", "client CPU µs a renewal", "÷ cheapest",
		"Redis CPU µs a renewal", "lost",
	}}
	for i, c := range all {
		t.add(fmt.Sprint(specs[i].Leases), specs[i].TTL.String(),
			fmt.Sprintf("%.0f", median(c.renewals)), fmt.Sprintf("%.2f", costs[i]),
			times(costs[i], least), fmt.Sprintf("%.2f",
				(median(c.redis)-median(idle.redis))/median(c.renewals)), fmt.Sprint(c.lost))
	}
	out := &printer{w: w}
	out.printf("\n## What a renewal costs, by the number of leases: Lockbeat (medians of %d "+
		"rounds)\n\n%s", rounds, t)
	out.printf("\nWithout what the processes take with a single lease: %.2f ms of client CPU and "+
		"%.2f ms of Redis CPU a second.\n",
		median(idle.client)/1e3, median(idle.redis)/1e3)
	const mostSpread = 1.5
	return []target{{
		"CPU a renewal, dearest ÷ cheapest", times(most, least), "≤ 1.5", least > 0 &&
			most/least <= mostSpread,
	}}, out.err
}

// scaled is what a number of leases took in each round, a second.
type scaled struct {
	client, redis []float64 // CPU, in µs
	renewals      []float64
	lost          int
}

func (c *scaled) add(h *holding, held time.Duration) {
	c.client = append(c.client, float64(h.kept.CPU.Microseconds())/held.Seconds())
	c.redis = append(c.redis, float64(h.redisCPU.Microseconds())/held.Seconds())
	c.renewals = append(c.renewals, float64(h.renewals)/held.Seconds())
	c.lost += h.Lost
}
