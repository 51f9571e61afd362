package main

import (
	"context"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
)

// every is the time between two ticks. The TTL of the locks is below it, so
// that those of a dead node have lapsed by the next tick.
const (
	every = 3 * time.Second
	ttl   = 900 * time.Millisecond
)

// runNode is a scheduler, and a job in it that is run once a tick. The keeper's
// observer hears of each.
func runNode(ctx context.Context, n *demo.Node, r role) error {
	node, err := cronmw.New(ctx, n.Keeper)
	if err != nil {
		return err
	}
	scheduler := cron.New(cron.WithSeconds())
	_, err = node.AddFunc(scheduler, "*/3 * * * * *", "report", func(ctx context.Context) error {
		run := cronmw.Current(ctx)
		n.Tell(runs, run.Due.UnixMilli(), strconv.Itoa(run.Missed))
		return r.work(ctx, run)
	}, cronmw.RunIfMissed())
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	<-scheduler.Stop().Done()
	return nil
}
