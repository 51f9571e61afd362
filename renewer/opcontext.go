package renewer

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// opContext is the context of a lease's operation. It is made when it is
// first asked for, since it takes as much memory as the rest of a lease,
// and a program may hold very many without ever selecting on their ends.
type opContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	// stops watching the caller's, for [Config.CancelGrace]; nil without. Guarded by Keeper.mu
	unwatch func() bool
	freeing asking.Valued // of the request that frees the lease
	// in Keeper.questions, while the store is asked for the lease. Guarded by Keeper.mu
	deadlinePlace timing.Place
}

func deadlinePlace(c *opContext) *timing.Place { return &c.deadlinePlace }

func newOpContext(parent context.Context) *opContext { return new(opContext).begin(parent) }

func (c *opContext) begin(parent context.Context) *opContext {
	c.ctx, c.cancel = context.WithCancelCause(parent)
	return c
}

// errReleased is the cause of a lease's context after a clean release.
var errReleased = fmt.Errorf("lockbeat: lease released: %w", context.Canceled)

// releasedContext is for those who ask for it after the release only.
var releasedContext = func() *opContext {
	c := newOpContext(context.Background())
	c.cancel(errReleased)
	return c
}()
