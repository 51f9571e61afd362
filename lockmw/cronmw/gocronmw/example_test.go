package gocronmw_test

import (
	"context"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A job each second; on other nodes that have it each tick is skipped.
func Example() {
	ctx := context.Background()
	keeper, _ := renewer.New(memory.New(), renewer.Config{})
	defer keeper.Shutdown(ctx) //nolint:errcheck // an example
	node, _ := cronmw.New(ctx, keeper)
	scheduler, _ := gocron.NewScheduler()
	defer scheduler.Shutdown() //nolint:errcheck // an example

	ran := make(chan renewer.Run)
	_, err := gocronmw.AddFunc(node, scheduler, "* * * * * *", "report",
		func(ctx context.Context) error {
			select {
			case ran <- cronmw.Current(ctx):
			case <-ctx.Done():
			}
			return nil
		})
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	fmt.Println((<-ran).Job)
	// Output: report
}
