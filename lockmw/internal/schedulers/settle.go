package schedulers

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultSettle is how long a new leader waits before it runs a scheduler.
const DefaultSettle = time.Second

// Settle is how long a new leader waits, so that its clock has passed
// every tick that the leader before it has run: longer than clocks differ.
type Settle time.Duration

// Check refuses a negative duration.
func (s Settle) Check() error {
	if s < 0 {
		return fmt.Errorf("%w: Settle is %v: it can't be negative; give more than clocks differ, "+
			"such as %v",
			renewer.ErrConfig, time.Duration(s), DefaultSettle)
	}
	return nil
}

// Pass lets it pass, unless ctx ends before: then the error is ctx's cause.
func (s Settle) Pass(ctx context.Context) error {
	timer := time.NewTimer(time.Duration(s))
	defer timer.Stop()
	select {
	case <-timer.C:
		return context.Cause(ctx) // which may have ended in the same instant
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
