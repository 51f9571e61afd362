package fencetx_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a transaction whose statements all get the same answer. What only
// a database can show is in integration/sql.
type answers struct {
	t  *testing.T // fails if a statement comes; nil if one may
	id int64
}

func (a answers) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	if a.t != nil {
		a.t.Error("a statement is sent")
	}
	return a, nil
}

func (a answers) Commit() error { return nil }

func (a answers) LastInsertId() (int64, error) { return a.id, nil }

func (a answers) RowsAffected() (int64, error) { return 1, nil }

// inner is what answers is to pgx.
type inner struct{ answers }

// tag is what pgx answers.
type tag struct{}

func (tag) RowsAffected() int64 { return 1 }

func (i inner) Exec(ctx context.Context, query string, args ...any) (tag, error) {
	_, err := i.ExecContext(ctx, query, args...)
	return tag{}, err
}

func (inner) Commit(context.Context) error { return nil }

func newKeeper(t *testing.T) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k
}

// Without a lock on each name no statement is sent.
func TestNoLock(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	limited := lockmw.Limit("limited", 2)
	ctx, exit, err := adapter.Enter(t.Context(), k, lockmw.All("a").And(limited))
	require.NoError(t, err)
	defer func() { require.NoError(t, exit(nil)) }()
	over, end, err := adapter.Enter(t.Context(), k, "over")
	require.NoError(t, err)
	require.NoError(t, end(nil))
	passed := adapter.WithFence(t.Context(), 1<<50)
	many := make([]string, 100)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	for what, row := range map[string]struct {
		ctx  context.Context
		name lockmw.Set
		kind error
	}{
		"no name":             {ctx, lockmw.Set{}, renewer.ErrName},
		"an invalid name":     {ctx, lockmw.Invalid(sql.ErrNoRows), renewer.ErrName},
		"no lock":             {t.Context(), lockmw.All("a"), renewer.ErrConfig},
		"another lock":        {ctx, lockmw.All("a", "b"), renewer.ErrConfig},
		"a limit":             {ctx, lockmw.All("a").And(limited), renewer.ErrConfig},
		"a limit's name":      {ctx, lockmw.All("limited"), renewer.ErrConfig},
		"a lock that is over": {over, lockmw.All("over"), renewer.ErrConfig},
		"a token passed on":   {passed, lockmw.All("a"), renewer.ErrConfig},
		"an empty name":       {ctx, lockmw.All("a", ""), renewer.ErrName},
		"a long name":         {ctx, lockmw.All(strings.Repeat("x", 513)), renewer.ErrName},
		"too many names":      {ctx, lockmw.All(many...), renewer.ErrName},
	} {
		tx := answers{t: t}
		for _, err := range []error{
			fencetx.PostgreSQL(row.ctx, tx, row.name), fencetx.Pgx(row.ctx, inner{tx}, row.name),
			fencetx.MySQL(row.ctx, tx, row.name), fencetx.SQLite(row.ctx, tx, row.name),
		} {
			require.ErrorIs(t, err, row.kind, what)
			require.True(t, strings.HasPrefix(err.Error(), "lockbeat: fence a transaction"), err)
			require.Equal(t, 1, strings.Count(err.Error(), "lockbeat:"), err)
		}
	}
}

// A driver that does not pass the token on, from a server that has none to
// pass, is not believed.
func TestNoLastInsertID(t *testing.T) {
	t.Parallel()
	ctx, exit, err := adapter.Enter(t.Context(), newKeeper(t), "a")
	require.NoError(t, err)
	defer func() { require.NoError(t, exit(nil)) }()
	token := lockmw.FenceOf(ctx, "a")
	require.NoError(t, fencetx.MySQL(ctx, answers{id: token}, "a"))
	require.ErrorIs(t, fencetx.MySQL(ctx, answers{id: 0}, "a"), renewer.ErrConfig)
	require.ErrorIs(t, fencetx.MySQL(ctx, answers{id: token + 1}, "a"), renewer.ErrLost)
}

// What would commit each statement by itself is no transaction to the compiler.
func TestNoTransactions(t *testing.T) {
	t.Parallel()
	for _, none := range []any{(*sql.DB)(nil), (*sql.Conn)(nil)} {
		_, ok := none.(fencetx.Tx)
		require.False(t, ok)
	}
	require.Implements(t, (*fencetx.Tx)(nil), (*sql.Tx)(nil))
}
