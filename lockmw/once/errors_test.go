package once_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A log of renewer.ErrorText shows the name of no work, whatever has become of
// it.
func TestErrorTextShowsNoName(t *testing.T) {
	t.Parallel()
	const name = "jane@example.org"
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		run := func(n string, f func(context.Context) (any, error), opts ...once.Option) error {
			_, err := once.Do(t.Context(), k, name+n, f, opts...)
			return err
		}
		works := func(context.Context) (any, error) { return 1, nil }
		fails := func(context.Context) (any, error) { return nil, errOperation }
		encodes := func(context.Context) (any, error) { return fails, nil }
		refused := func(context.Context) (any, error) {
			_, err := lockmw.Do(t.Context(), keeper(t, s, "there"), name, works, lockmw.Refuse())
			return nil, once.Permanent(err)
		}
		inside := func(ctx context.Context) (any, error) { return once.Do(ctx, k, name, works) }
		_, misused := lockmw.Do(t.Context(), k, name, inside)
		require.NoError(t, run("done", works, once.Input("a")))
		l.unbegun.Store(1)
		for what, c := range map[string]struct{ err, kind error }{
			"misused":   {misused, renewer.ErrConfig},
			"given up":  {run("", refused), renewer.ErrBusy},
			"exhausted": {run("2", fails, once.MaxAttempts(1)), once.ErrAttemptsExhausted},
			"not begun": {run("3", works, once.RecordIn(l), lockmw.Refuse()), errDown},
			"no result": {run("4", encodes), once.ErrResult},
			"input":     {run("done", works, once.Input("b")), once.ErrInput},
		} {
			require.ErrorIs(t, c.err, c.kind, what)
			assert.NotContains(t, renewer.ErrorText(c.err), name, what)
			assert.Contains(t, renewer.ErrorText(c.err), "once", what)
		}
	})
}
