// Package lead runs schedulers that know nothing of locks on one node of many.
package lead

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultSettle is how long a new leader waits before it begins.
const DefaultSettle = time.Second

// Config says how to lead.
type Config struct {
	Keeper *renewer.Keeper
	// Job is the name that the nodes have in common.
	Job string
	// Operation is what others read of the leader.
	Operation string
	// Settle is how long a new leader waits before it begins, so that its clock has passed every tick that the one before it has
	// run: longer than clocks differ. It must not be negative.
	Settle time.Duration
}

// Name is the lock's name.
func (c Config) Name() string { return lockmw.Key("cron", c.Job) }

// Check refuses what can never work.
func (c Config) Check() error {
	switch {
	case c.Keeper == nil:
		return fmt.Errorf("%w: there is no keeper: make one by renewer.New", renewer.ErrConfig)
	case c.Settle < 0:
		return fmt.Errorf("%w: Settle is %v: it can't be negative; give more than clocks differ, such as %v",
			renewer.ErrConfig, c.Settle, DefaultSettle)
	}
	return renewer.CheckName(c.Name())
}

// Run runs fn on one node of all that call it, the leader, and stands by elsewhere: see lockmw.RunWhileHeld.
func Run(ctx context.Context, c Config, fn func(context.Context) error) error {
	return lockmw.RunWhileHeld(ctx, c.Keeper, c.Name(), func(ctx context.Context) error {
		timer := time.NewTimer(c.Settle)
		defer timer.Stop()
		select {
		case <-timer.C:
			return fn(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, lockmw.Operation(c.Operation))
}
