package cronmw_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// Two nodes have the same schedule, and each tick runs on one of them.
func Example() {
	ctx, store := context.Background(), memory.New() // in production redisstore
	schedule := cronmw.Every(2 * time.Second)
	due := schedule.Next(time.Now())
	report := func(context.Context) error { return nil }
	var runs atomic.Int64
	var nodes sync.WaitGroup
	for range 2 {
		keeper, err := renewer.New(store, renewer.Config{})
		if err != nil {
			panic(err)
		}
		defer keeper.Shutdown(ctx) //nolint:errcheck // an example
		node, err := cronmw.New(ctx, keeper)
		if err != nil {
			panic(err)
		}
		job, err := node.Job("report", schedule, report)
		if err != nil {
			panic(err)
		}
		nodes.Go(func() { // in production a scheduler, such as robfig/cron by node.AddFunc
			<-time.After(time.Until(due))
			if job.Fire(ctx).Outcome == renewer.OutcomeRan {
				runs.Add(1)
			}
		})
	}
	nodes.Wait()
	fmt.Println("runs of one tick on two nodes:", runs.Load())
	// Output: runs of one tick on two nodes: 1
}
