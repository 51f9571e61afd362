package main

import (
	"context"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// schedule runs a job each two seconds, on one of the processes that have it.
func schedule(stop context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	keeper, closeLocks := openLocks(redis, observer)
	defer closeLocks()
	jobs, cut := context.WithCancel(context.Background()) // outlives the signal
	defer cut()

	node, err := cronmw.New(jobs, keeper)
	must(err)
	scheduler := cron.New(cron.WithSeconds())
	_, err = node.AddFunc(scheduler, "*/2 * * * * *", "report", func(ctx context.Context) error {
		log.Print("report for ", cronmw.Current(ctx).Due)
		return nil
	})
	must(err)
	scheduler.Start()
	<-stop.Done()
	stopped := scheduler.Stop() // no tick begins
	select {
	case <-stopped.Done(): // what runs has ended
	case <-time.After(20 * time.Second):
		cut() // the rest is told to end
		<-stopped.Done()
	}
}
