package sqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
)

var errFenced = errors.New("no such account, or a later holder has written")

// fencedUpdate is what the example of lockmw.Fence and docs/faq.md show.
const fencedUpdate = "UPDATE accounts SET balance = balance - $1, fence = $2 " +
	"WHERE id = $3 AND fence <= $2"

func TestTheFencedUpdateIsTheOneShown(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"../lockmw/example_test.go", "../docs/faq.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, strings.Join(strings.Fields(string(text)), " "), fencedUpdate, page)
	}
}

func debit(ctx context.Context, db *sql.DB, account string, amount int64) error {
	result, err := db.ExecContext(ctx, fencedUpdate, amount, lockmw.Fence(ctx), account)
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
	onEach(t, func(t *testing.T, d *database) {
		ctx := t.Context()
		_, err := d.ExecContext(ctx, `CREATE TABLE accounts (
			id VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)`)
		require.NoError(t, err)
		_, err = d.ExecContext(ctx, "INSERT INTO accounts (id, balance) VALUES ('7', 100)")
		require.NoError(t, err)

		earlier, later := lockmw.WithFence(ctx, 1001), lockmw.WithFence(ctx, 1002)
		require.NoError(t, debit(earlier, d.DB, "7", 10))
		require.NoError(t, debit(earlier, d.DB, "7", 10), "the same holder, again")
		require.NoError(t, debit(later, d.DB, "7", 10))
		require.ErrorIs(t, debit(earlier, d.DB, "7", 10), errFenced)
		require.ErrorIs(t, debit(ctx, d.DB, "7", 10), errFenced, "without a lock")
		require.NoError(t, debit(later, d.DB, "7", 10))

		var balance int64
		require.NoError(t, d.QueryRowContext(ctx,
			"SELECT balance FROM accounts WHERE id = '7'").Scan(&balance))
		require.Equal(t, int64(60), balance)
	})
}
