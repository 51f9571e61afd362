package main

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

const (
	attempts = 20
	// ttl is that of the lock: others wait at most this long for a worker that
	// was killed.
	ttl = 3 * time.Second
)

// runWorker has the report written, by this worker or by another one: all get
// the same answer. n.Tell is how the story hears of it; your own program would
// log.
func runWorker(ctx context.Context, n *demo.Node, _ struct{}) error {
	report := func(ctx context.Context) (string, error) {
		a := once.Current(ctx)
		n.Tell(begins, int64(a.Number), a.Previous.Node)
		return write(ctx, n, a.Number)
	}
	answer, err := once.Do(ctx, n.Keeper, "report:2026-11", report, once.MaxAttempts(attempts),
		once.Keep(time.Minute), once.Retry(300*time.Millisecond, 500*time.Millisecond),
		lockmw.Operation("report"))
	if err != nil {
		answer = err.Error()
	}
	n.Tell(ends, 0, answer)
	<-ctx.Done()
	return nil
}
