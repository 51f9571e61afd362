// Package full tells the refusal of a limit from that of a lock.
package full

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/renewer"
)

// Of reports whether err is the refusal of a limit (lockmw.Limit) that is full,
// and how many it lets run at once: 0 if it is closed.
func Of(err error) (limit int, full bool) {
	e, ok := errors.AsType[*renewer.Error](err)
	if !ok || !errors.Is(e, renewer.ErrBusy) || errors.Is(e, context.DeadlineExceeded) {
		return 0, false // in the latter case it is the caller's own deadline that has come
	}
	return e.Limit, e.Limit > 0 || errors.Is(e, renewer.ErrLimitClosed)
}
