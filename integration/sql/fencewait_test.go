package sql_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/fencetx"
)

// A successor waits for a COMMIT under way, and comes after it. If its predecessor rolls back
// instead, or dies, the successor is in no conflict.
func TestASuccessorWaits(t *testing.T) {
	t.Parallel()
	onEachLevel(t, func(t *testing.T, d *fenced) {
		if d.kind == "SQLite" {
			d.begin = d.impatient(t) // which shows that it would wait
		}
		former, successor := holder(t, 1, "a"), holder(t, 2, "a")
		for round := range 4 {
			before, after := d.transaction(t), d.transaction(t)
			require.NoError(t, before.fence(former, "a"), round)
			commits := round%2 == 1
			end := before.rollback
			if commits {
				end = before.commit
			}
			var err error
			if d.waiting == "" {
				require.True(t, inConflict(after.fence(successor, "a")))
				require.NoError(t, end())
				err = after.fence(successor, "a")
			} else {
				over := make(chan error, 1)
				go func() { over <- after.fence(successor, "a") }()
				d.await(t, 1)
				require.NoError(t, end())
				err = <-over
			}
			strict := d.undoes() && d.level != sql.LevelReadCommitted
			require.Equal(t, strict && commits, inConflict(err), "%v", err)
			require.NoError(t, after.rollback())
		}
	})
}

// impatient begins transactions on SQLite that wait for no other.
func (d *fenced) impatient(t *testing.T) beginner {
	t.Helper()
	other := *d
	other.DB = connect(t, "sqlite", strings.Replace(d.dsn, "busy_timeout(10000)",
		"busy_timeout(1)", 1))
	return other.beginBy(fencetx.SQLite)
}

// Transactions with several names take the rows in one order, whatever order they give.
func TestNamesInOneOrder(t *testing.T) {
	t.Parallel()
	kinds := fencedKinds()
	delete(kinds, "SQLite") // it has one writer
	onEachKind(t, kinds, func(t *testing.T, d *fenced) {
		ctx := holder(t, 1, "a", "b")
		last, both, first := d.transaction(t), d.transaction(t), d.transaction(t)
		require.NoError(t, last.fence(ctx, "b"))
		over := make(chan error, 2)
		go func() { over <- both.fence(ctx, "b", "a") }()
		d.await(t, 1)
		go func() { over <- first.fence(ctx, "a") }()
		d.await(t, 2) // since both has the row of a already
		require.NoError(t, last.commit())
		require.NoError(t, <-over)
		require.NoError(t, both.commit())
		require.NoError(t, <-over)
	})
}

// What a transaction reads before it is fenced is not protected: docs of the package say how it
// shows.
func TestReadsBeforeTheFence(t *testing.T) {
	t.Parallel()
	onEachLevel(t, func(t *testing.T, d *fenced) {
		a := openAccounts(t, d, "a")
		former, successor := holder(t, 1, "a"), holder(t, 2, "a")
		s := d.transaction(t)
		const read = "SELECT n FROM accounts"
		if d.kind == "MariaDB" && d.level == sql.LevelSerializable {
			return // reads lock the rows, so that the former could not write
		}
		_, err := s.get(t.Context(), read)
		require.NoError(t, err)
		require.NoError(t, a.write(former, 1, []string{"a"}, noPause()))
		err = s.fence(successor, "a")
		if d.level != sql.LevelReadCommitted && d.kind != "MariaDB" {
			require.True(t, inConflict(err), "%v", err)
			require.ErrorContains(t, err, "run the transaction again")
			return
		}
		require.NoError(t, err)
		n, err := s.get(t.Context(), read)
		require.NoError(t, err)
		old := d.level == sql.LevelRepeatableRead
		require.Equal(t, old, n == 0)
	})
}
