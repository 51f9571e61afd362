package cronmw

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer"
)

type currentKey struct{}

// Current is the tick that ctx belongs to, by its Job, Due, Attempt and Missed;
// zero outside of a job's function, and by [Job.RunNow].
func Current(ctx context.Context) renewer.Run {
	t, _ := ctx.Value(currentKey{}).(renewer.Run)
	return t
}
