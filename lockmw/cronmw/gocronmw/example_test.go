package gocronmw_test

import (
	"context"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// The job is made by the locker rather than by the scheduler; the rest is gocron as ever.
func Example() {
	ctx := context.Background()
	// in production redisstore in place of memory
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(ctx) //nolint:errcheck // an example
	locker, err := gocronmw.NewLocker(keeper, gocronmw.Config{})
	if err != nil {
		panic(err)
	}
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		panic(err)
	}
	defer scheduler.Shutdown() //nolint:errcheck // an example

	sent := make(chan string, 100)
	_, err = locker.NewJob(scheduler, gocron.CronJob("* * * * * *", true), // each second
		gocron.NewTask(func() { sent <- "report sent" }), gocron.WithName("report"))
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	fmt.Println(<-sent)
	// Output: report sent
}
