package sql_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// A recorder in a database answers every question as the store in memory does.
func TestAnswersAreThoseOfTheMemoryStore(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		r, model := d.recorder(t), engine.In(memory.New())
		for step := range suite.Size(150, 1000) {
			name, fence := string('a'+rune(random.IntN(2))), 1+random.Int64N(4)
			var got, want store.Seen
			var err error
			var status store.Status
			var asked string
			switch random.IntN(4) {
			case 0:
				asked = "read " + name
				got, err = r.Read(t.Context(), name)
				want = model.Read(t.Context(), []string{name})[0]
				status = want.Status
			case 1:
				term := store.Term{Name: name, Fence: fence, TTL: time.Hour}
				asked = fmt.Sprintf("prepare %+v", term)
				got, err = r.Prepare(t.Context(), term)
				want = model.Prepare(t.Context(), []store.Term{term})[0]
				status = want.Status
			default:
				record := store.Record{
					Name: name, Fence: fence, Seq: 1 + random.Int64N(3),
					Data: fmt.Sprint(random.IntN(2)), TTL: time.Hour,
					Erase: random.IntN(8) == 0,
				}
				asked = fmt.Sprintf("write %+v", record)
				err = r.Write(t.Context(), record)
				status = model.Write(t.Context(), []store.Record{record})[0].Status
			}
			where := fmt.Sprintf("seed %d, step %d, %s: %v and %v", seed, step, asked, err, status)
			require.Equal(t, kinds[status], kind(err), where)
			if err != nil {
				continue
			}
			require.InDelta(t, want.TTL, got.TTL, float64(time.Minute), where)
			require.Equal(t, shown(want), shown(got), where)
		}
	})
}

// kinds are the errors of a recorder of single records by what a store answers.
var kinds = map[store.Status]error{
	store.StatusHeld: nil, store.StatusTaken: renewer.ErrLost, store.StatusGone: store.ErrNoRecord,
	store.StatusBehind: renewer.ErrConfig,
}

// shown is what callers see of a record, but for times.
func shown(seen store.Seen) store.Seen {
	return store.Seen{Status: seen.Status, Fence: seen.Fence, Seq: seen.Seq, Data: seen.Data}
}

// kind is what callers tell errors apart by.
func kind(err error) error {
	for _, kind := range []error{
		nil, renewer.ErrLost, store.ErrNoRecord, renewer.ErrConfig, renewer.ErrRejected,
		renewer.ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

// What can't be meant is told at once, each fault by its name.
func TestFaultyOptions(t *testing.T) {
	t.Parallel()
	d := onSQLite(t)
	_, err := sqlrecord.PostgreSQL(nil, sqlrecord.Table("a;b"), sqlrecord.Timeout(0))
	require.ErrorIs(t, err, renewer.ErrConfig)
	for _, word := range []string{"database", "Table", "Timeout"} {
		require.ErrorContains(t, err, word)
	}
	_, err = sqlrecord.SQLite(d.DB, sqlrecord.Table("other.t"))
	require.ErrorIs(t, err, renewer.ErrConfig)
	_, err = sqlrecord.PostgreSQL(d.DB, sqlrecord.Table("other.t"))
	require.NoError(t, err)
	r := d.recorder(t)
	_, err = r.Prepare(t.Context(), store.Term{Name: "a", TTL: time.Hour})
	require.ErrorIs(t, err, renewer.ErrConfig)
	_, err = r.Prepare(t.Context(), store.Term{Name: "a", Fence: 1})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorIs(t, r.Write(t.Context(), store.Record{Name: "a", Fence: 1, Seq: 1}),
		renewer.ErrConfig)
}
