package tracing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

func allSeries(t *testing.T, s *seen) map[string]int {
	t.Helper()
	n := make(map[string]int)
	for name, m := range s.metrics(t) {
		n[name] = len(sets(m))
	}
	return n
}

// A thousand keys make no more series than one, nor do a thousand
// renewals, and nothing is held or waited for at the end.
func TestSeriesDoNotGrowWithKeysAndRenewals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		one := func(name string) {
			l := s.acquire(t.Context(), t, name, renewer.Request{Operation: "charge"})
			_, err := s.keeper.Acquire(t.Context(), renewer.Request{
				Name: name, Operation: "charge", Try: true,
			})
			require.ErrorIs(t, err, renewer.ErrBusy)
			require.NoError(t, l.Release(l.Context()))
		}
		one("first")
		l := s.acquire(t.Context(), t, "second", renewer.Request{Operation: "charge"})
		waitFor(config.TTL)
		before := allSeries(t, s.seen)
		require.Equal(t, map[string]int{
			"lockbeat.acquire.duration": 2, "lockbeat.hold.duration": 1, "lockbeat.renew.lag": 1,
			"lockbeat.held":    1,
			"lockbeat.waiting": 1, "lockbeat.overrunning": 1,
			"lockbeat.tasks_in_line": 1, "lockbeat.store.outage": 1, "lockbeat.hold.oldest": 1,
			"lockbeat.wait.oldest": 1,
			// These are there before the first, which Prometheus would miss else.
			"lockbeat.renewals": 3, "lockbeat.losses": 3, "lockbeat.unlocked": 1,
			"lockbeat.refusals": 3,
		}, before)
		for i := range 1000 {
			one(fmt.Sprint("order:", i))
		}
		waitFor(100 * config.Heartbeat)
		require.Equal(t, before, allSeries(t, s.seen))
		require.GreaterOrEqual(t,
			s.sum(t, "lockbeat.renewals", map[string]any{"lockbeat.outcome": "ok"}), int64(100))
		charge := map[string]any{"lockbeat.operation": "charge"}
		require.Equal(t, int64(1), s.sum(t, "lockbeat.held", charge))
		require.NoError(t, l.Release(l.Context()))
		require.Zero(t, s.sum(t, "lockbeat.held", charge))
		require.Zero(t, s.sum(t, "lockbeat.waiting", charge))
		n, _ := s.durations(t, "lockbeat.acquire.duration",
			map[string]any{"lockbeat.operation": "charge", "lockbeat.outcome": "held"})
		require.Equal(t, uint64(1001), n)
	}, noSpans)
}

// A program that makes operations of its keys gets a bounded number
// of series, and no lock is missing in their sum.
func TestOperationsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSeen()
	o := tracing.New(append(s.to, noSpans)...)
	use := func(operation string) context.Context {
		start := renewer.AcquireStart{Name: "a", Operation: operation}
		return o.AcquireEnd(o.AcquireStart(t.Context(), start),
			renewer.AcquireEnd{AcquireStart: start, Fence: 1})
	}
	for i := range 2 * (mostOperations + 100) {
		operation := fmt.Sprint("order ", i/2)
		o.Released(use(operation), renewer.Released{Name: "a", Operation: operation, Fence: 1})
	}
	use("more")
	for name, count := range allSeries(t, s) {
		most := mostOperations + 1
		if name == "lockbeat.losses" || name == "lockbeat.refusals" {
			most *= 3 // reasons that are there before a loss, and outcomes before a refusal
		}
		require.LessOrEqual(t, count, most, name)
	}
	count, _ := s.durations(t, "lockbeat.hold.duration",
		map[string]any{"lockbeat.operation": "_OTHER", "lockbeat.outcome": "released"})
	require.Equal(t, uint64(200), count)
	require.Equal(t, int64(1),
		s.sum(t, "lockbeat.held",
			map[string]any{"lockbeat.operation": "_OTHER"}), "the one that was not released")
}

// What is waited for and held shows while it is.
func TestHeldAndWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		of := map[string]any{"lockbeat.operation": "charge"}
		l := s.acquire(t.Context(), t, "a", renewer.Request{Operation: "charge"})
		done := make(chan *renewer.Lease)
		go func() {
			l, _ := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Operation: "charge"})
			done <- l
		}()
		waitFor(time.Second)
		require.Equal(t, int64(1), s.sum(t, "lockbeat.held", of))
		require.Equal(t, int64(1), s.sum(t, "lockbeat.waiting", of))
		require.NoError(t, l.Release(l.Context()))
		l = <-done
		require.Equal(t, int64(1), s.sum(t, "lockbeat.held", of))
		require.Zero(t, s.sum(t, "lockbeat.waiting", of))
		s.store.Delete("a")
		<-l.Context().Done()
		waitFor(time.Millisecond)
		require.Zero(t, s.sum(t, "lockbeat.held", of),
			"a lost lock is held no more, though its operation runs")
		require.Error(t, l.Release(l.Context()))
		require.Zero(t, s.sum(t, "lockbeat.held", of))
		_, waited := s.durations(t, "lockbeat.acquire.duration",
			map[string]any{"lockbeat.operation": "charge", "lockbeat.outcome": "granted"})
		require.InDelta(t, 1, waited, 1e-6)
		require.Equal(t, int64(1),
			s.sum(t, "lockbeat.renewals", map[string]any{"lockbeat.outcome": "gone"}))
	})
}

// A lock that is stuck, who waits for it, and an operation that runs on without its lock are seen
// while they are there, by operation: that is what one is woken for. Leaders never are.
func TestTheOldestShowWhileTheyLast(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		charge := map[string]any{"lockbeat.operation": "charge"}
		slot := map[string]any{"lockbeat.operation": "charge", "lockbeat.limited": true}
		lead := map[string]any{"lockbeat.operation": "lead"}
		stuck := s.acquire(t.Context(), t, "a", renewer.Request{Operation: "charge"})
		leader := s.acquire(t.Context(), t, "l", renewer.Request{
			Operation: "lead", LongRunning: true,
		})
		waitFor(time.Minute)
		young := s.acquire(t.Context(), t, "b", renewer.Request{Operation: "charge"})
		left := make(chan error)
		wait := func(r renewer.Request) {
			r.MaxWait = 5 * time.Second
			_, err := s.keeper.Acquire(t.Context(), r)
			left <- err
		}
		go wait(renewer.Request{Name: "a", Operation: "charge"})
		go wait(renewer.Request{Name: "l", Operation: "lead", LongRunning: true})
		limits := slotsOf(t, s)
		held, err := limits.k.Acquire(t.Context(), renewer.Request{
			Name: "a", Operation: "charge", Limit: atMost(1),
		})
		require.NoError(t, err)
		waitFor(4 * time.Second)
		require.InDelta(t, 64, s.gauge(t, "lockbeat.hold.oldest", charge), 1e-3)
		require.InDelta(t, 4, s.gauge(t, "lockbeat.hold.oldest", slot), 1e-3, "of another keeper")
		require.InDelta(t, 4, s.gauge(t, "lockbeat.wait.oldest", charge), 1e-3)
		require.Zero(t, s.gauge(t, "lockbeat.hold.oldest", lead))
		require.Zero(t, s.gauge(t, "lockbeat.wait.oldest", lead))
		require.Error(t, <-left)
		require.Error(t, <-left)
		require.Zero(t, s.gauge(t, "lockbeat.wait.oldest", charge))
		s.TasksInLine(renewer.TasksInLine{Name: "a", Tasks: 3, Change: 2})
		require.Equal(t, int64(2), s.sum(t, "lockbeat.tasks_in_line", map[string]any{}))

		s.store.Delete("a")
		<-stuck.Context().Done()
		waitFor(time.Second)
		require.Equal(t, int64(1), s.sum(t, "lockbeat.overrunning", charge))
		require.Less(t, s.gauge(t, "lockbeat.hold.oldest", charge), 20.0, "that of the young one")
		require.Error(t, stuck.Release(t.Context()))
		require.Zero(t, s.sum(t, "lockbeat.overrunning", charge))
		for _, l := range []*renewer.Lease{young, leader, held} {
			require.NoError(t, l.Release(t.Context()))
		}
		require.Zero(t, s.gauge(t, "lockbeat.hold.oldest", charge))
		require.NoError(t, limits.k.Shutdown(t.Context()))
		require.Zero(t, s.gauge(t, "lockbeat.hold.oldest", slot))
	})
}

// The metric and the probe for readiness say the same at the same moment.
func TestAnOutageIsAMetric(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		away := func() float64 { return s.gauge(t, "lockbeat.store.outage", map[string]any{}) }
		require.Zero(t, away())
		s.store.Default(script.Acquire, script.Fail(errDown))
		_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		waitFor(s.keeper.Config().FailOver - time.Millisecond)
		require.Zero(t, away())
		require.NoError(t, s.keeper.HealthCheck())
		waitFor(time.Millisecond)
		require.InDelta(t, 5, away(), 1e-3)
		require.Error(t, s.keeper.HealthCheck())
		waitFor(time.Minute)
		require.InDelta(t, 65, away(), 1e-3)
		s.store.Default(script.Acquire, script.Pass())
		waitFor(time.Second)
		require.Zero(t, away())
		require.NoError(t, s.keeper.HealthCheck())
	})
}

// gauge is the value of one series of a gauge; it must be there.
func (s *seen) gauge(t *testing.T, name string, of map[string]any) float64 {
	t.Helper()
	data, ok := s.metrics(t)[name].Data.(metricdata.Gauge[float64])
	require.True(t, ok, name)
	for _, p := range data.DataPoints {
		if assert.ObjectsAreEqual(of, attrs(p.Attributes.ToSlice())) {
			return p.Value
		}
	}
	require.Fail(t, "no such series", "%s %v", name, of)
	return 0
}

// sets are the attributes of a metric's series.
func sets(m metricdata.Metrics) []attribute.Set {
	var all []attribute.Set
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	}
	return all
}
