package sql_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// process is one that never hears of another: it gets every lock that it asks for, as if it had
// been paused ever since it had it.
type process struct {
	store  *script.Store
	keeper *renewer.Keeper
}

func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{store: script.New()}
	var err error
	p.keeper, err = renewer.New(p.store, renewer.Config{TTL: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.keeper.Shutdown(context.WithoutCancel(t.Context()))) })
	return p
}

// under returns a context that runs under the locks on names, with this token, until leave is
// called.
func (p *process) under(
	t *testing.T, token int64, names ...string,
) (ctx context.Context, leave func()) {
	t.Helper()
	return p.underIn(t, t.Context(), token, names...)
}

// underIn is under inside of what around runs under.
func (p *process) underIn(
	t *testing.T, around context.Context, token int64, names ...string,
) (ctx context.Context, leave func()) {
	t.Helper()
	p.store.Default(script.Acquire, script.Granted(token))
	ctx, exit, err := adapter.Enter(around, p.keeper, lockmw.All(names...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = exit(nil) }) // for a test that fails, whose end would wait for it
	return ctx, func() { require.NoError(t, exit(nil)) }
}

// holder is under for the rest of the test, in a process of its own.
func holder(t *testing.T, token int64, names ...string) context.Context {
	t.Helper()
	ctx, leave := newProcess(t).under(t, token, names...)
	t.Cleanup(leave)
	return ctx
}
