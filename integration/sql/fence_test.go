package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var errFenced = errors.New("no such account, or a later holder has written")

// What the example of adapter.WithFence shows.
const (
	fenceColumn  = "fence BIGINT NOT NULL DEFAULT 1"
	fencedUpdate = "UPDATE accounts SET balance = balance - $1, fence = $2 " +
		"WHERE id = $3 AND fence <= $2"
)

// What the pages show is what is tested, or compiled.
func TestFencesAsShown(t *testing.T) {
	t.Parallel()
	shown := func(page string) string {
		text, err := os.ReadFile("../../" + page)
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	example := shown("lockmw/example_test.go")
	require.Contains(t, example, fencedUpdate)
	require.Contains(t, example, fenceColumn)
	_, snippet, _ := strings.Cut(shown("docs/fencing.md"), "```go ")
	snippet, _, _ = strings.Cut(snippet, " ```")
	require.Contains(t, snippet, "fencedb.")
	require.Contains(t, shown("lockmw/fencedb/example_test.go"), snippet)
}

func debit(ctx context.Context, db *sql.DB, account string, amount, fence int64) error {
	result, err := db.ExecContext(ctx, fencedUpdate, amount, fence, account)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 1 {
		return err
	}
	return errFenced
}

// A row that a later holder has written refuses an earlier one, and nothing else.
func TestAFencedUpdate(t *testing.T) {
	t.Parallel()
	kinds := fencedKinds()
	delete(kinds, "MariaDB") // whose arguments are not numbered
	delete(kinds, "pgx")
	onEachKind(t, kinds, func(t *testing.T, d *fenced) {
		ctx := t.Context()
		d.run(t, `CREATE TABLE accounts (
			id VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL, `+fenceColumn+`)`,
			"INSERT INTO accounts (id, balance) VALUES ('7', 100)")

		const without, earlier, later = 0, 1001, 1002
		require.ErrorIs(t, debit(ctx, d.DB, "7", 10, without), errFenced, "a row that is new")
		require.NoError(t, debit(ctx, d.DB, "7", 10, earlier))
		require.NoError(t, debit(ctx, d.DB, "7", 10, earlier), "the same holder, again")
		require.NoError(t, debit(ctx, d.DB, "7", 10, later))
		require.ErrorIs(t, debit(ctx, d.DB, "7", 10, earlier), errFenced)
		require.ErrorIs(t, debit(ctx, d.DB, "7", 10, without), errFenced)
		require.NoError(t, debit(ctx, d.DB, "7", 10, later))

		var balance int64
		require.NoError(t, d.QueryRowContext(ctx,
			"SELECT balance FROM accounts WHERE id = '7'").Scan(&balance))
		require.Equal(t, int64(60), balance)
	})
}
