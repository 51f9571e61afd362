package sql_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// The README's picture of a late write is of one that really is refused; on a plain
// connection, it is not.
func TestPictureOfALateWrite(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/plots/late-write.svg")
	require.NoError(t, err)
	picture := string(text)
	for _, carries := range []bool{true, false} {
		d := ways()["pgx/stdlib"].openAccount(t, "pgx/stdlib")
		db := opened(t, d.connector(t))
		if carries {
			db = d.carrying(t)
		}
		balance := func(db *sql.DB) (n int64) {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT n FROM accounts").Scan(&n))
			return n
		}
		fence := func() (n int64) {
			require.NoError(t, d.QueryRowContext(t.Context(),
				"SELECT coalesce(max(token), 0) FROM lockbeat_fences").Scan(&n))
			return n
		}
		a, b := holder(t, 1, "account:7"), holder(t, 2, "account:7")
		set := func(n int64) string { return fmt.Sprint("UPDATE accounts SET n = ", n) }
		require.NoError(t, inTx(nil, set(100))(a, db))
		read := balance(db)
		before := fmt.Sprintf(">balance %d, fence %d<", read, fence())

		// A is paused, and B has the lock.
		require.NoError(t, inTx(nil, set(balance(db)-30))(b, db))
		after := fmt.Sprintf(">balance %d, fence %d<", balance(db), fence())

		late := inTx(nil, set(read+50))(a, db)
		if !carries {
			require.NoError(t, late)
			require.Contains(t, picture, fmt.Sprintf("A's write is the last: balance %d,", balance(db)))
			continue
		}
		require.ErrorIs(t, late, renewer.ErrLost)
		require.Contains(t, picture, fmt.Sprintf(">writes its %d: ErrLost<", read+50))
		for _, label := range []string{before, after} {
			require.Equal(t, 1, strings.Count(picture, label), label)
		}
		require.Contains(t, picture, fmt.Sprintf("balance %d, fence", balance(db)), "it stays")
	}
}
