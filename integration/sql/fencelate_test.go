package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
)

// accounts are rows that transactions read, think about, and write.
type accounts struct {
	d         *fenced
	conflicts atomic.Int64
}

// openAccounts makes those of names, with a table of who has committed to them.
func openAccounts(t *testing.T, d *fenced, names ...string) *accounts {
	t.Helper()
	d.run(t, "CREATE TABLE accounts (name VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL)",
		"CREATE TABLE commits (name VARCHAR(20), n BIGINT, token BIGINT)",
		"INSERT INTO accounts VALUES ('"+strings.Join(names, "', 0), ('")+"', 0)")
	return &accounts{d: d}
}

// pauses are what a transaction does before it is fenced, and before it commits.
type pauses struct{ begun, written func() }

func noPause() pauses { return pauses{func() {}, func() {}} }

// errNotUndone means that a transaction could be committed although it was told that it is late.
var errNotUndone = errors.New("a late transaction was committed")

// write adds one to each name's row, in a fenced transaction that is run again after conflicts,
// then without pauses.
func (a *accounts) write(ctx context.Context, token int64, names []string, p pauses) error {
	for {
		err := a.writeOnce(ctx, token, names, p)
		if !inConflict(err) {
			return err
		}
		a.conflicts.Add(1)
		p = noPause()
	}
}

func (a *accounts) writeOnce(ctx context.Context, token int64, names []string, p pauses) error {
	s, err := a.d.begin(ctx, sql.TxOptions{Isolation: a.d.level})
	if err != nil {
		return err
	}
	defer func() { _ = s.rollback() }()
	p.begun()
	if err := s.fence(ctx, names...); err != nil {
		if errors.Is(err, renewer.ErrLost) && a.d.undoes() && s.commit() == nil {
			return errNotUndone
		}
		return err
	}
	for _, name := range names {
		n, err := s.get(ctx, "SELECT n FROM accounts WHERE name = '"+name+"'")
		if err != nil {
			return err
		}
		if err := errors.Join(
			s.exec(ctx, fmt.Sprintf("UPDATE accounts SET n = %d WHERE name = '%s'", n+1, name)),
			s.exec(ctx, fmt.Sprintf("INSERT INTO commits VALUES ('%s', %d, %d)", name, n+1, token)),
		); err != nil {
			return err
		}
	}
	p.written()
	return s.commit()
}

// undoes reports whether a late holder's transaction is undone by the database.
func (d *fenced) undoes() bool { return d.kind == "PostgreSQL" || d.kind == "pgx" }

// judge fails the test if a lower token was committed after a higher one, or an update was lost. It
// returns how many were committed.
func (a *accounts) judge(t *testing.T) (commits int64) {
	t.Helper()
	rows, err := a.d.QueryContext(t.Context(), "SELECT name, n, token FROM commits ORDER BY name, n")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var before struct {
		name     string
		n, token int64
	}
	for rows.Next() {
		this := before
		require.NoError(t, rows.Scan(&this.name, &this.n, &this.token))
		if this.name != before.name {
			before.n, before.token = 0, 0
		}
		require.Equal(t, before.n+1, this.n, "an update of %s is lost", this.name)
		require.GreaterOrEqual(t, this.token, before.token, "of %s", this.name)
		before = this
		commits++
	}
	require.NoError(t, rows.Err())
	return commits
}

// Of two holders of the same locks the former has been paused, before its transaction, within it,
// or between its writes and its COMMIT. It commits nothing after its successor has come, and its
// successor does not overtake its COMMIT.
func TestLateHoldersCommitNothing(t *testing.T) {
	t.Parallel()
	late := suite.Size[int64](12, 1000) // each pair of names in each case, once
	onEachLevel(t, func(t *testing.T, d *fenced) {
		a := openAccounts(t, d, "a", "b", "c")
		pairs := [][]string{{"a", "b"}, {"b", "a"}, {"c", "a"}, {"b", "c"}}
		first, second := newProcess(t), newProcess(t)
		var refused, commits int64
		for i := range late {
			names := pairs[i%int64(len(pairs))]
			reversed := []string{names[1], names[0]}
			former, leave := first.under(t, 2*i+1, names...)
			successor, leaveToo := second.under(t, 2*i+2, names...)
			succeed := func(p pauses) error { return a.write(successor, 2*i+2, reversed, p) }
			again := func(p pauses) error { return a.write(former, 2*i+1, names, p) }
			switch i % 3 {
			case 0:
				require.NoError(t, succeed(noPause()))
			case 1:
				p := noPause()
				p.begun = func() { require.NoError(t, succeed(noPause())) }
				require.ErrorIs(t, again(p), renewer.ErrLost)
			case 2:
				begun, over := make(chan struct{}), make(chan error, 1)
				written := noPause()
				written.written = func() {
					go func() {
						p := noPause()
						p.begun = func() { close(begun) }
						over <- succeed(p)
					}()
					<-begun
				}
				if err := again(written); err == nil {
					commits += 2
				} else {
					// Its COMMIT was in conflict, and its successor has come since.
					require.ErrorIs(t, err, renewer.ErrLost)
					require.NotEqual(t, sql.LevelReadCommitted, d.level)
				}
				require.NoError(t, <-over)
			}
			commits += 2
			if err := again(noPause()); errors.Is(err, renewer.ErrLost) {
				refused++
			} else {
				t.Errorf("round %d: %v", i, err)
			}
			leave()
			leaveToo()
		}
		require.Equal(t, late, refused)
		require.Equal(t, commits, a.judge(t))
		if d.level == sql.LevelReadCommitted {
			require.Zero(t, a.conflicts.Load(), "names in one order make no circle")
		}
		t.Logf("%d of %d refused, %d conflicts", refused, late, a.conflicts.Load())
	})
}
