// Package ended has the error for a request whose context has ended.
package ended

import (
	"context"
	"errors"
	"fmt"
)

// Error returns the error for a request on ctx, which has ended. errors.Is and
// errors.As find both the context's error and its cause.
func Error(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("lockbeat: the request has ended: %w", cause)
	}
	return fmt.Errorf("lockbeat: the request has ended: %w: %w", err, cause)
}
