package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// polling is how many requests an idle server sends each second.
type polling struct{ asynq, own, locks float64 }

// idleServers counts the requests of servers that have no task.
func idleServers(ctx context.Context, o options, w io.Writer) ([]target, error) {
	span := 10 * time.Second
	if o.short {
		span = time.Second
	}
	fleets := []fleetOf{
		{inLine, 1, taskWorkers, 0},
		{inLine, 1, taskWorkers, asynqInterval},
		{freely, 1, taskWorkers, 0},
	}
	t := table{{
		"", "asynq's requests/s", "ours to asynq's Redis", "ours to the locks' server",
		"all ÷ asynq alone",
	}}
	all := make([]polling, len(fleets))
	for i, of := range fleets {
		var err error
		if all[i], err = of.idle(ctx, span); err != nil {
			return nil, err
		}
	}
	alone := all[len(all)-1].sum()
	for i, p := range all {
		name := fleets[i].lock
		if fleets[i].interval != 0 {
			name += ", asynq's own TaskCheckInterval"
		}
		t.add(name, fmt.Sprintf("%.1f", p.asynq), fmt.Sprintf("%.1f", p.own),
			fmt.Sprintf("%.1f", p.locks), times(p.sum(), alone))
	}
	out := &printer{w: w}
	out.printf("\n## Requests of one idle server of %d workers (%v)\n\n%s", taskWorkers, span, t)
	return []target{{
		"idle server with Configure, requests ÷ asynq's own", times(all[0].sum(), alone),
		"reported", true,
	}}, out.err
}

func (p polling) sum() float64 { return p.asynq + p.own + p.locks }

func (of fleetOf) idle(ctx context.Context, span time.Duration) (p polling, err error) {
	f, err := of.open(ctx)
	if err != nil {
		return p, err
	}
	defer f.close()
	if _, err := f.warm(ctx); err != nil {
		return p, err
	}
	before, err := f.end()
	if err != nil {
		return p, err
	}
	if err := resetStats(f.locks); err != nil {
		return p, err
	}
	time.Sleep(span)
	after, err := f.end()
	if err != nil {
		return p, err
	}
	locks, err := f.requested()
	a := func(n int64) float64 { return float64(n) / span.Seconds() }
	return polling{a(after.Asynq - before.Asynq), a(after.Own - before.Own), a(locks)}, err
}
