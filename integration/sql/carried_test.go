package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
)

// tally is what became of calls of a repository.
type tally struct{ commits, late, refused, conflicts int64 }

func (n *tally) add(t *testing.T, err error, late bool) {
	t.Helper()
	switch {
	case err == nil:
		n.commits++
		if late {
			n.late++
		}
	case errors.Is(err, renewer.ErrLost):
		n.refused++
	case inConflict(err):
		n.conflicts++
	default:
		require.NoError(t, err)
	}
}

func noop() {}

// Of two holders of one lock the former has been paused: before its transaction, within
// it, before or behind what it reads. The repositories know nothing of locks, and a late
// holder commits nothing. The same repositories on connections that carry nothing commit
// late, and lose updates.
func TestUnchangedRepositoriesCommitNothingLate(t *testing.T) {
	t.Parallel()
	rounds := suite.Size[int64](25, 1000)
	for name, w := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare, lostBare := lateRounds(t, w, name, false, rounds)
			require.Positive(t, bare.late, "the test does not bite")
			carried, lost := lateRounds(t, w, name, true, rounds)
			require.Zero(t, carried.late)
			require.Zero(t, lost)
			require.Zero(t, carried.conflicts)
			require.GreaterOrEqual(t, carried.refused, rounds*8/5)
			t.Logf("%d rounds: %d late, %d lost, %d refused; without: %d late, %d lost", rounds,
				carried.late, lost, carried.refused, bare.late, lostBare)
		})
	}
}

func lateRounds(
	t *testing.T, w way, name string, carries bool, rounds int64,
) (n tally, lost int64) {
	t.Helper()
	d := w.openAccount(t, name)
	r := w.repo(t, d, carries)
	first, second := newProcess(t), newProcess(t)
	add := func(ctx context.Context, begun, read func()) error {
		return r.Add(ctx, sql.TxOptions{}, begun, read)
	}
	for i := range rounds {
		former, leave := first.under(t, 2*i+1, "lock")
		successor, leaveToo := second.under(t, 2*i+2, "lock")
		over := make(chan error, 1)
		overtaken := func() { // which waits, if the database makes it
			var done atomic.Bool
			go func() {
				err := add(successor, noop, noop)
				done.Store(true)
				over <- err
			}()
			for range 10 {
				time.Sleep(time.Millisecond) //nolint:forbidigo // a pause
				if done.Load() {
					return
				}
			}
		}
		switch i % 5 {
		case 0, 1: // paused before a transaction, the first of its lease or not
			if i%2 == 0 {
				n.add(t, add(former, noop, noop), false)
			}
			n.add(t, add(successor, noop, noop), false)
			n.add(t, add(former, noop, noop), true)
			n.add(t, r.AddAlone(former), true)
			n.add(t, r.AddReturning(former), true)
		case 2: // in it, before it reads
			n.add(t, add(former, overtaken, noop), false)
			n.add(t, <-over, false)
		case 3: // behind what it reads: an update is lost unless the successor waits
			n.add(t, add(former, noop, overtaken), false)
			n.add(t, <-over, false)
		case 4:
			n.add(t, r.AddAlone(former), false)
			n.add(t, r.AddReturning(successor), false)
			n.add(t, r.AddAlone(former), true)
			n.add(t, r.AddReturning(former), true)
		}
		leave()
		leaveToo()
	}
	sum, err := r.Sum(t.Context())
	require.NoError(t, err)
	return n, n.commits - sum
}
