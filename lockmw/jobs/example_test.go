package jobs_test

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// An adapter calls what Wrap returns for each delivery, and does what the
// result says.
func ExampleWrap() {
	ctx := context.Background()
	keeper, err := renewer.New(memory.New(), renewer.Config{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(ctx) }()

	type email struct{ UserID, Text string }
	run := jobs.Wrap(keeper, func(e email) string { return lockmw.Key("user", e.UserID) },
		func(_ context.Context, e email) error {
			fmt.Println("sent:", e.Text)
			return nil
		}, lockmw.Refuse())

	tell := func(r jobs.Result) {
		switch r.Outcome {
		case jobs.OutcomeRan:
			fmt.Println("ran:", r.Err)
		case jobs.OutcomeBack:
			fmt.Println("goes back, uncounted:", r.RetryIn > 0)
		default:
			fmt.Println("other:", r.Outcome, r.Err)
		}
	}
	tell(run(ctx, jobs.Delivery{Kind: "email", ID: "1"}, email{"7", "hello"}))

	held, err := keeper.Acquire(ctx, renewer.Request{Name: "user:7"}) // by another process, as a rule
	if err != nil {
		panic(err)
	}
	tell(run(ctx, jobs.Delivery{Kind: "email", ID: "2"}, email{"7", "world"}))
	_ = held.Release(ctx)
	// Output:
	// sent: hello
	// ran: <nil>
	// goes back, uncounted: true
}
