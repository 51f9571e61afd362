//go:build unix

package rivermw_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

// crowd runs n jobs of 20 tenants, of 20 ms each, on two clients with 20 workers each, which fetch
// as fast as River does. It returns how long that took, by the shortest time that is possible.
func crowd(t testing.TB, n int) float64 {
	t.Helper()
	const tenants, takes = 20, 20 * time.Millisecond
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
		workers = append(workers, r.worker(e.keeper(), takes, rivermw.InLine(e.newPool())))
	}
	begun := time.Now()
	for _, w := range workers {
		cfg := quick(20)
		cfg.FetchPollInterval = river.FetchPollIntervalMin
		e.client(w, cfg)
	}
	r.await(t, n, time.Minute)
	took := time.Since(begun)
	e.awaitDone(n)
	require.Len(t, r.ids, n)
	require.Zero(t, r.overlaps)
	return took.Seconds() / (takes * time.Duration(n/tenants)).Seconds()
}

// No job of a crowd is lost, discarded, or counted for contention, and none overlaps another.
func TestCrowd(t *testing.T) {
	t.Parallel()
	t.Logf("time by ideal: %.2f", crowd(t, suite.Size(300, 1000)))
}

// BenchmarkCrowd reports the time of 1,000 jobs by the shortest that is possible, 1 s.
func BenchmarkCrowd(b *testing.B) {
	sum := 0.0
	for b.Loop() {
		sum += crowd(b, 1000)
	}
	b.ReportMetric(sum/float64(b.N), "time/ideal")
}
