package main

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
)

// every is the time between two ticks. The TTL of the locks is below it, so that those of a dead
// node have lapsed by the next tick.
const (
	every = 1200 * time.Millisecond
	ttl   = 900 * time.Millisecond
)

// runNode is a scheduler, and a job in it that is run once a tick. n.Tell is how the story hears of
// it; your own program would log.
func runNode(ctx context.Context, n *demo.Node, r role) error {
	node, err := cronmw.New(ctx, n.Keeper, cronmw.Config{
		OnTick: func(_ context.Context, t cronmw.Tick) { n.Tell(t.Outcome.String(), r.tick(), "") },
	})
	if err != nil {
		return err
	}
	scheduler := cron.New()
	job := func(ctx context.Context) error {
		n.Tell(runs, r.tick(), "")
		return r.work(ctx)
	}
	// With cron's own syntax: cron.ParseStandard("*/5 * * * *") in place of cronmw.Every.
	_, err = node.Schedule(scheduler, skewed{cronmw.Every(every), r.Ahead}, "report", job)
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	<-scheduler.Stop().Done()
	return nil
}
