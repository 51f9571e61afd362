package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
)

// meeting has so many wait for each other, the first time that each one comes.
type meeting struct {
	sync.WaitGroup

	been sync.Map
}

func (m *meeting) await(who any) {
	if _, again := m.been.LoadOrStore(who, nil); !again {
		m.Done()
		m.Wait()
	}
}

// Serializable transactions of which each has read what the others write: the database lets one of
// them commit, and the others begin anew. None of them has used up its one attempt.
func TestConflictsUseUpNoAttempts(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	const works = 8
	d.run(t, fmt.Sprintf("INSERT INTO %s SELECT 'count', 0 FROM generate_series(1, 2)", d.effects))
	serializable := d.by(t, d.dsn+" default_transaction_isolation=serializable")
	k, r := memoryKeeper(t), once.RecordIn(serializable.recorder(t))
	var all sync.WaitGroup
	read := new(meeting)
	read.Add(works)
	for i := range works {
		all.Go(func() {
			_, err := once.Do(t.Context(), k, fmt.Sprint(i), func(ctx context.Context) (int, error) {
				assert.Equal(t, 1, once.Current(ctx).Number)
				var sum int
				tx := sqlrecord.Tx(ctx)
				err := tx.QueryRowContext(ctx, "SELECT sum(by) FROM "+d.effects).Scan(&sum)
				read.await(i)
				if err != nil {
					return 0, err
				}
				if _, err = tx.ExecContext(ctx, "UPDATE "+d.effects+" SET by = by + 1"); err != nil {
					return 0, fmt.Errorf("the function's: %w", err)
				}
				return sum, nil
			}, r, once.MaxAttempts(1))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.Equal(t, []int64{works, works}, d.affectedBy(t, "count"))
}

// conflictAtCommit has so many COMMITs of effects fail as the database's code says.
func (d *database) conflictAtCommit(t *testing.T, times int, code string) {
	t.Helper()
	d.run(t, strings.NewReplacer("EFFECTS", d.effects, "TIMES", fmt.Sprint(times), "STATE", code).Replace(`
		CREATE SEQUENCE EFFECTS_commits;
		CREATE FUNCTION EFFECTS_conflict() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			IF nextval('EFFECTS_commits') <= TIMES THEN
				RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'STATE';
			END IF;
			RETURN NULL;
		END$$;
		CREATE CONSTRAINT TRIGGER conflict AFTER INSERT ON EFFECTS DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION EFFECTS_conflict()`))
}

// So it is if the database finds the conflict, or a deadlock, at COMMIT only.
func TestConflictsAtCommitUseUpNoAttempts(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		d := onPostgres(t)
		d.conflictAtCommit(t, 3, code)
		runs := 0
		got, err := once.Do(t.Context(), memoryKeeper(t), "a", func(ctx context.Context) (int, error) {
			runs++
			return once.Current(ctx).Number, d.affect(ctx, "a", int64(runs))
		}, once.RecordIn(d.recorder(t)), once.MaxAttempts(1))
		require.NoError(t, err)
		require.Equal(t, 1, got)
		require.Equal(t, []int64{4}, d.affectedBy(t, "a"))
	}
}

// Conflicts without end are told as such when the call may wait no longer. No attempt is used up.
func TestConflictsWithoutEnd(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	d.conflictAtCommit(t, 1000, "40001")
	k, r, runs := memoryKeeper(t), once.RecordIn(d.recorder(t)), 0
	work := func(ctx context.Context) (int, error) {
		runs++
		require.Equal(t, 1, once.Current(ctx).Number)
		return 1, d.affect(ctx, "a", 1)
	}
	for _, opt := range []once.Option{lockmw.Wait(200 * time.Millisecond), once.NoRetry()} {
		got, err := once.Do(t.Context(), k, "a", work, r, opt, once.MaxAttempts(1))
		require.ErrorIs(t, err, once.ErrConflict)
		require.ErrorContains(t, err, "could not serialize access")
		require.NotErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, once.ErrAttemptsExhausted)
		require.NotContains(t, err.Error(), "unavailable")
		require.Zero(t, got, "it is not done")
		require.Empty(t, d.affectedBy(t, "a"))
		require.Zero(t, d.rows(t))
	}
	require.Greater(t, runs, 2)
}

// A COMMIT on SQLite that others who read hold up is a conflict too.
func TestSQLiteCommitsThatReadersHoldUp(t *testing.T) {
	t.Parallel()
	wal := onSQLite(t)
	d := wal.by(t, strings.NewReplacer("busy_timeout(10000)", "busy_timeout(20)",
		"journal_mode(WAL)", "journal_mode(DELETE)").Replace(wal.dsn))
	require.NoError(t, wal.Close())
	var err error
	runs := 0
	var reader *sql.Rows
	_, err = once.Do(t.Context(), memoryKeeper(t), "a", func(ctx context.Context) (int, error) {
		runs++
		if runs == 1 {
			reader, err = d.QueryContext(t.Context(), "SELECT count(*) FROM "+d.effects+
				" UNION ALL SELECT 2 UNION ALL SELECT 3")
			require.NoError(t, err)
			require.True(t, reader.Next())
		} else {
			require.NoError(t, reader.Close())
			require.NoError(t, reader.Err())
		}
		return 0, d.affect(ctx, "a", int64(runs))
	}, once.RecordIn(d.recorder(t)), once.MaxAttempts(1))
	require.NoError(t, err)
	require.Equal(t, []int64{2}, d.affectedBy(t, "a"))
}

// A function that goes on after one of its statements has failed is told so. The database is there.
func TestAFailedStatementThatIsIgnored(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	_, err := once.Do(t.Context(), memoryKeeper(t), "a", func(ctx context.Context) (int, error) {
		_, _ = sqlrecord.Tx(ctx).ExecContext(ctx, "INSERT INTO missing VALUES (1)")
		return 1, nil
	}, once.RecordIn(d.recorder(t)), once.MaxAttempts(1))
	require.ErrorIs(t, err, once.ErrAttemptsExhausted)
	require.NotErrorIs(t, err, renewer.ErrUnavailable)
	require.ErrorContains(t, err, "a statement of the function has failed, and it went on")
	var coded interface{ SQLState() string }
	require.ErrorAs(t, err, &coded)
	require.Equal(t, "25P02", coded.SQLState())
}
