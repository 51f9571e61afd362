package rivermw_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
)

// everyMoment has a client insert a job of t1's every 100 ms. It may be given to several clients:
// the leader inserts.
func everyMoment(workers int) *river.Config {
	cfg := quick(workers)
	cfg.PeriodicJobs = []*river.PeriodicJob{river.NewPeriodicJob(
		river.PeriodicInterval(100*time.Millisecond),
		func() (river.JobArgs, *river.InsertOpts) { return invoice{Tenant: "t1"}, nil },
		&river.PeriodicJobOpts{ID: "invoices", RunOnStart: true},
	)}
	return cfg
}

// A periodic job takes longer than its period. The others stand in line: one runs at a time, and
// no attempt is used up.
func TestPeriodicJobsStandInLine(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	b := newBlocker()
	var clients []*river.Client[pgx.Tx]
	for range 2 {
		clients = append(clients, e.client(b.worker(e.keeper(), rivermw.InLine(e.newPool())),
			everyMoment(4)))
	}
	<-b.began
	const n = 4
	require.Eventually(t, func() bool {
		states, _ := e.states()
		return states["available"]+states["scheduled"] >= n
	}, soon, tick)
	for _, client := range clients {
		client.PeriodicJobs().Clear()
	}
	require.Empty(t, b.began, "one runs")
	for range n {
		b.let <- struct{}{}
		<-b.began
		require.Empty(t, b.began, "one runs")
	}
	close(b.let)
	require.Eventually(t, func() bool {
		states, attempts := e.states()
		return len(states) == 1 && attempts == states["completed"]
	}, soon, tick)
}

// Of a periodic job that takes longer than its period, Skip leaves out what would pile up.
func TestPeriodicJobsSkip(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	b := newBlocker()
	client := e.client(b.worker(e.keeper(), lockmw.Skip()), everyMoment(4))
	<-b.began
	require.Eventually(t, func() bool {
		states, _ := e.states()
		return states["completed"] >= 4
	}, soon, tick)
	require.Empty(t, b.began)
	b.let <- struct{}{}
	<-b.began
	client.PeriodicJobs().Clear()
	close(b.let)
	require.Eventually(t, func() bool {
		states, attempts := e.states()
		return len(states) == 1 && attempts == states["completed"]
	}, soon, tick, "none is left")
}
