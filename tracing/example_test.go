package tracing_test

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/tracing"
)

// One field of the keeper's configuration, and every lock is seen by the
// program's global providers. What runs under a lock is below its
// lockbeat.hold. The program in examples/tracing prints such traces.
func Example() {
	ctx := context.Background()
	keeper, err := renewer.New(memory.New(), renewer.Config{
		TTL:      renewer.DefaultTTL,
		Observer: tracing.New(), // or tracing.New(tracing.WithTracerProvider(provider))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(ctx) }()

	left, err := lockmw.Do(ctx, keeper, "account:42", func(context.Context) (int, error) {
		return 58, nil // the context that a function gets here is that of the span
	}, lockmw.Operation("transfer"))
	fmt.Println(left, err)
	// Output: 58 <nil>
}
