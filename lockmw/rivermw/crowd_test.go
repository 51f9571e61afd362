package rivermw_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
)

const (
	tenants = 20
	takes   = 20 * time.Millisecond
)

// crowd runs n jobs of 20 tenants, of 20 ms each, on two clients, which fetch
// as fast as River does, with 20 workers each; or, without locks, with as many
// as there are tenants. It returns how long that took, by the shortest time
// that is possible.
func crowd(t testing.TB, n int, locked bool) float64 {
	t.Helper()
	e := newEnv(t)
	var r record
	var params []river.InsertManyParams
	for i := range n {
		params = append(params, river.InsertManyParams{
			Args: invoice{Tenant: fmt.Sprint("t", i%tenants), N: i},
		})
	}
	_, err := e.inserter().InsertMany(t.Context(), params)
	require.NoError(t, err)
	var workers []river.Worker[invoice]
	for range 2 {
		if locked {
			workers = append(workers, r.worker(e.keeper(), takes, rivermw.InLine(e.newPool())))
		} else {
			workers = append(workers, work(r.run(takes)))
		}
	}
	begun := time.Now()
	for _, w := range workers {
		cfg := quick(20)
		if !locked {
			cfg = quick(tenants / 2)
		}
		cfg.FetchPollInterval = river.FetchPollIntervalMin
		e.client(w, cfg)
	}
	r.await(t, n, time.Minute)
	took := time.Since(begun)
	e.awaitDone(n)
	require.Len(t, r.ids, n)
	require.False(t, locked && r.overlaps > 0)
	return took.Seconds() / (takes * time.Duration(n/tenants)).Seconds()
}

// No job of a crowd is lost, discarded, or counted for contention, and none
// overlaps another.
func TestCrowd(t *testing.T) {
	suite.OnlyLong(t) // by TestAdapterOfJobs a small one is
	t.Parallel()
	t.Logf("time by ideal: %.2f", crowd(t, 1000, true))
}

// BenchmarkCrowd reports the time of 1,000 jobs by the shortest that is
// possible, 1 s, and by that of River without locks, on as many workers as
// there are tenants.
func BenchmarkCrowd(b *testing.B) {
	var locked, unlocked float64
	for b.Loop() {
		unlocked += crowd(b, 1000, false)
		locked += crowd(b, 1000, true)
	}
	b.ReportMetric(locked/float64(b.N), "time/ideal")
	b.ReportMetric(locked/unlocked, "time/unlocked")
}
