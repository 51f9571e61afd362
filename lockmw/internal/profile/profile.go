// Package profile has goroutine profiles say which lock an operation runs under.
package profile

import (
	"context"
	"runtime/pprof"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// Do runs an operation under the lock, or the locks, that a name stands for, and returns its error.
// If the keeper's Config.ProfileLabels says so, its goroutine, and those that it starts, have the
// labels "lock" and "operation" meanwhile.
func Do(
	ctx context.Context, k *renewer.Keeper, name, operation string,
	fn func(context.Context) error,
) (err error) {
	if !k.Config().ProfileLabels {
		return fn(ctx)
	}
	name, _ = naming.CutRank(name)
	names := naming.Split(name)
	if names == nil {
		names = []string{name}
	}
	for i, one := range names {
		names[i], _, _ = naming.CutLimit(one)
	}
	labels := pprof.Labels("lock", strings.Join(names, ", "), "operation", operation)
	pprof.Do(ctx, labels, func(ctx context.Context) { err = fn(ctx) })
	return err
}
