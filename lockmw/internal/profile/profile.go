// Package profile has goroutine profiles say which lock an operation runs
// under.
package profile

import (
	"context"
	"runtime/pprof"
	"strings"
)

// Labelled returns an operation whose goroutine, and those that it starts, have
// the labels "lock" and "operation" while it runs.
func Labelled(
	fn func(context.Context) error, locks []string, operation string,
) func(context.Context) error {
	labels := pprof.Labels("lock", strings.Join(locks, ", "), "operation", operation)
	return func(ctx context.Context) (err error) {
		pprof.Do(ctx, labels, func(ctx context.Context) { err = fn(ctx) })
		return err
	}
}
