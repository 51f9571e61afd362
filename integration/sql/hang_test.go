package sql_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hanging are the commits of a PostgreSQL database's effects, which wait until they are released.
type hanging struct {
	d    *database
	held *sql.Tx
	key  int64 // of the lock that they wait for
}

// hangCommits has transactions with effects wait in their COMMIT, when all else is written.
func (d *database) hangCommits(t *testing.T) *hanging {
	t.Helper()
	h := &hanging{d: d, key: tables.Add(1)}
	d.run(t, fmt.Sprintf(`CREATE FUNCTION wait_%[1]d() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN PERFORM pg_advisory_xact_lock_shared(%[1]d); RETURN NULL; END$$`, h.key))
	d.run(t, fmt.Sprintf(`CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON %s DEFERRABLE
		INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_%d()`, d.effects, h.key))
	var err error
	h.held, err = d.Begin()
	require.NoError(t, err)
	_, err = h.held.Exec(fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", h.key))
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.held.Rollback() })
	return h
}

// await returns when n sessions wait, in a COMMIT or for a row of the records.
func (h *hanging) await(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, h.d.QueryRow(`SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND (query LIKE '%' || $1 || ' %' OR EXISTS (
				SELECT FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid AND NOT granted
				AND locktype = 'advisory' AND objid = $2))`, h.d.records, h.key).Scan(&waiting))
		return waiting == n
	}, 10*time.Second, 5*time.Millisecond)
}

// release lets the commits end.
func (h *hanging) release(t *testing.T) {
	t.Helper()
	require.NoError(t, h.held.Rollback())
}
