// Package profile has goroutine profiles say which lock an operation runs
// under.
package profile

import (
	"context"
	"runtime/pprof"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Do runs an operation under the locks of a set, and returns its error. If the
// keeper's Config.ProfileLabels says so, its goroutine, and those that it
// starts, have the labels "lock" and "operation" meanwhile.
func Do(
	ctx context.Context, k *renewer.Keeper, set names.Set, operation string,
	fn func(context.Context) error,
) (err error) {
	if !k.Config().ProfileLabels {
		return fn(ctx)
	}
	labels := pprof.Labels("lock", strings.Join(set.Texts(), ", "), "operation", operation)
	pprof.Do(ctx, labels, func(ctx context.Context) { err = fn(ctx) })
	return err
}
