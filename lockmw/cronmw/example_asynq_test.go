package cronmw_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// enqueueReport returns the job: it enqueues the task of its tick, and tries again itself while
// asynq's Redis is away. It ends with its context.
func enqueueReport(client *asynq.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		run := cronmw.Current(ctx) // the tick: the same on every node
		for {
			err := asynqmw.EnqueueOnce(ctx, client, run.Job, run.Due, asynq.NewTask("report", nil))
			if err == nil || ctx.Err() != nil {
				return err
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// A job on two nodes, which enqueues exactly one task a tick. TakeOver has another node try for
// that tick if this one is stopped or dies meanwhile, and RunIfMissed when all were down.
func Example_asynq() {
	redis, err := embedded.Start() // in production a server
	if err != nil {
		fmt.Println(err)
		return
	}
	defer redis.Close()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = client.Close() }()

	ctx, store := context.Background(), memory.New()
	var nodes sync.WaitGroup
	var ran atomic.Int64
	onTick := func(_ context.Context, t cronmw.Tick) { // or cronmw.LogTicks(logger)
		if t.Outcome == cronmw.OutcomeRan && t.Err == nil {
			ran.Add(1)
		}
	}
	for range 2 {
		keeper, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = keeper.Shutdown(ctx) }()
		node, err := cronmw.New(ctx, keeper, cronmw.Config{OnTick: onTick})
		if err != nil {
			fmt.Println(err)
			return
		}
		job, err := node.Job("nightly", cronmw.Every(500*time.Millisecond),
			enqueueReport(client), cronmw.TakeOver(3), cronmw.RunIfMissed())
		if err != nil {
			fmt.Println(err)
			return
		}
		nodes.Go(func() { // a scheduler calls the job on each tick
			for range 3 {
				<-time.After(time.Until(cronmw.Every(500 * time.Millisecond).Next(time.Now())))
				job.Fire(ctx)
			}
		})
	}
	nodes.Wait()

	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = inspector.Close() }()
	tasks, err := inspector.ListPendingTasks("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one task for each tick:", len(tasks) > 0 && int64(len(tasks)) == ran.Load())
	// Output: one task for each tick: true
}
