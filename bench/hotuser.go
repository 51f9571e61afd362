package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

// beside is what other users see of one hot user: how long their tasks take, from the moment that
// they are given to asynq.
type beside struct {
	alone, burst, parked []float64     // ms
	settled              time.Duration // from the burst until each of its tasks has been delivered
	parkedAll            bool
}

// hotName is the user who has very many tasks.
const hotName = "hot"

// hotUser lets a user have very many tasks while others have a hundred a second.
func hotUser(ctx context.Context, o options, w io.Writer) ([]target, error) {
	hot, span, bound := 10_000, 10*time.Second, 30*time.Second
	if o.short {
		hot, span, bound = 50, time.Second, 5*time.Second
	}
	t := table{{
		"", "others' p50, p99 without the hot user", "in the burst", "once it is parked",
		"p99, parked ÷ without", "the burst is parked after",
	}}
	var ours *beside
	for _, interval := range []time.Duration{0, asynqInterval} {
		b := new(beside)
		of := fleetOf{inLine, taskServers, taskWorkers, interval}
		if err := b.measure(ctx, of, hot, span, bound); err != nil {
			return nil, err
		}
		name := inLine
		if interval != 0 {
			name += ", asynq's own TaskCheckInterval"
		} else {
			ours = b
		}
		parked := b.settled.Round(10 * time.Millisecond).String()
		if !b.parkedAll {
			parked = "> " + parked
		}
		t.add(name, both(b.alone), both(b.burst), both(b.parked),
			times(quantileOf(b.parked, .99), quantileOf(b.alone, .99)), parked)
	}
	out := &printer{w: w}
	out.printf("\n## %d tasks of one user beside 100 tasks/s of others, 20 ms each, on %d "+
		"servers × %d\n\n%s", hot, taskServers, taskWorkers, t)
	const most = 1.3
	row := fmt.Sprintf("%d tasks of one hot user, ", hot)
	p99 := quantileOf(ours.parked, .99) / quantileOf(ours.alone, .99)
	return []target{
		{
			row + "p99 of others ÷ without, once parked", fmt.Sprintf("%.2f", p99), "≤ 1.30",
			ours.parkedAll && p99 <= most,
		},
		{row + "p99 of others in the burst", msOf(quantileOf(ours.burst, .99)), "reported", true},
	}, out.err
}

func both(v []float64) string {
	return msOf(quantileOf(v, .5)) + ", " + msOf(quantileOf(v, .99))
}

func (b *beside) measure(
	ctx context.Context, of fleetOf, hot int, span, bound time.Duration,
) error {
	f, err := of.open(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	if _, err := f.warm(ctx); err != nil {
		return err
	}
	others := startOthers(ctx, f)
	time.Sleep(span)
	burst := monotonic()
	if _, err := f.enqueue(hot, hotWork, func(int) string { return hotName }); err != nil {
		return err
	}
	b.parkedAll, err = f.await(ctx, bound, func(p progress) bool { return p.Hot >= hot })
	if err != nil {
		return err
	}
	parked := monotonic()
	b.settled = time.Duration(parked - burst)
	time.Sleep(span)
	enqueued, err := others.stop()
	if err != nil {
		return err
	}
	// those that came last are done by then, or never
	_, err = f.await(ctx, 2*time.Second, func(progress) bool { return false })
	if err != nil {
		return err
	}
	all, err := f.end()
	if err != nil {
		return err
	}
	b.part(all, enqueued, burst, parked)
	return nil
}

// part puts the others' times where they belong. A task that was never done took for ever.
func (b *beside) part(all served, enqueued map[string]int64, burst, parked int64) {
	ended := make(map[string]int64, len(all.Tasks))
	for _, d := range all.Tasks {
		ended[d.ID] = d.Ended
	}
	for id, at := range enqueued {
		took := math.Inf(1)
		if ended[id] != 0 {
			took = ms(time.Duration(ended[id] - at))
		}
		switch {
		case at < burst:
			b.alone = append(b.alone, took)
		case at < parked:
			b.burst = append(b.burst, took)
		default:
			b.parked = append(b.parked, took)
		}
	}
}
