package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// scraped lets every metric happen, and is what Prometheus gets: metrics by name, and the values
// of all labels.
func scraped(t *testing.T) (metrics map[string]bool, labels map[string]map[string]bool) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	inBubble(
		t, allThatIsMeasured, tracing.WithMeterProvider(
			sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		),
	)

	families, err := registry.Gather()
	require.NoError(t, err)
	metrics, labels = make(map[string]bool), make(map[string]map[string]bool)
	for _, family := range families {
		name := family.GetName()
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == nil {
					labels[l.GetName()] = map[string]bool{"": true} // where it is absent
				}
				labels[l.GetName()][l.GetValue()] = true
			}
			if m.GetHistogram() != nil {
				name = family.GetName() + "_bucket"
			}
		}
		metrics[name] = true
	}
	return metrics, labels
}

// allThatIsMeasured is runs of a job, an operation without its lock, a lock held and freed, refused,
// as expected too, renewed with and without success, lost and overrun, a limit full and closed, a
// store that is away, a lease that is replaced and one that is broken, and one of a keeper that is
// shut down.
func allThatIsMeasured(t *testing.T, s *scene) {
	work := "transfer"
	s.keeper.Observer().Unlocked(t.Context(),
		renewer.Unlocked{Name: "a", Operation: "transfer"})
	for _, outcome := range []renewer.Outcome{
		renewer.OutcomeAdded, renewer.OutcomeRan, renewer.OutcomeMissed, renewer.OutcomeNotRun,
	} {
		s.Ran(t.Context(), renewer.Run{
			Job: "report", Outcome: outcome, LastSuccess: time.Now(), DueBy: time.Now(),
		})
	}
	l := s.acquire(t.Context(), t, "a", renewer.Request{Operation: work})
	_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Operation: work, Try: true})
	require.Error(t, err)
	_, err = s.keeper.Acquire(t.Context(), renewer.Request{
		Name: "a", Operation: work, RefusalExpected: true, Try: true,
	})
	require.Error(t, err)
	s.store.Script(script.Renew, script.Pass(), script.Fail(errors.New("connection refused")),
		script.Gone())
	<-l.Context().Done()
	waitFor(time.Second)
	require.Error(t, l.Release(l.Context()))
	l = s.acquire(t.Context(), t, "a", renewer.Request{Operation: work})
	require.NoError(t, l.Release(t.Context()))
	limits := slotsOf(t, s).fill(1).k
	_, err = limits.Acquire(t.Context(), renewer.Request{
		Name: "a", Operation: work, Limit: atMost(1), Try: true,
	})
	require.ErrorIs(t, err, renewer.ErrBusy)
	_, err = limits.Acquire(t.Context(), renewer.Request{
		Name: "a", Operation: work, Limit: atMost(0), Try: true,
	})
	require.ErrorIs(t, err, renewer.ErrLimitClosed)
	s.store.Script(script.Acquire, script.Fail(errDown))
	_, err = s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Operation: work, Try: true})
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	in := memory.New()
	ends := newKeeper(t, in, s.Observer)
	l, err = ends.Acquire(t.Context(), renewer.Request{Name: "a", Operation: work})
	require.NoError(t, err)
	next := make(chan *renewer.Lease)
	go func() {
		newest, _ := ends.Acquire(t.Context(), renewer.Request{
			Name: "a", Operation: work, Newest: renewer.NewestReplaces,
		})
		next <- newest
	}()
	<-l.Context().Done()
	require.ErrorIs(t, l.Release(t.Context()), renewer.ErrReplaced)
	l = <-next
	engine.In(in).Break(t.Context(), store.Breaking{Name: "a", Fence: l.Fence()})
	<-l.Context().Done()
	require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	l, err = ends.Acquire(t.Context(), renewer.Request{Name: "a", Operation: work})
	require.NoError(t, err)
	over, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, ends.Shutdown(over))
	require.Error(t, l.Release(t.Context()))
}

// strings are all that a document has in it, in no order.
func stringsIn(document any) (found []string) {
	switch d := document.(type) {
	case string:
		return []string{d}
	case []any:
		for _, one := range d {
			found = append(found, stringsIn(one)...)
		}
	case map[string]any:
		for _, one := range d {
			found = append(found, stringsIn(one)...)
		}
	}
	return found
}

var (
	emitted  = regexp.MustCompile(`\blockbeat_\w+`)
	selected = regexp.MustCompile(`(lockbeat_\w+)(?:=|!=|=~|!~)"([^"$]*)"`)
)

// checkNames checks that all that is named in expressions of PromQL is there to be scraped. It
// returns the names.
func checkNames(
	t *testing.T, texts []string, metrics map[string]bool, labels map[string]map[string]bool,
) (used map[string]bool) {
	t.Helper()
	used = make(map[string]bool)
	for _, text := range texts {
		for _, name := range emitted.FindAllString(text, -1) {
			base := regexp.MustCompile(`_(sum|count)$`).ReplaceAllString(name, "_bucket")
			assert.True(t, metrics[name] || metrics[base] || labels[name] != nil,
				"there is no %s", name)
			used[name] = true
		}
		for _, is := range selected.FindAllStringSubmatch(text, -1) {
			for value := range strings.SplitSeq(is[2], "|") {
				assert.True(t, labels[is[1]][value], "no metric has %s", is[0])
			}
		}
	}
	return used
}

// A metric or an attribute that is renamed in one place only shows here.
func TestDashboard(t *testing.T) {
	t.Parallel()
	metrics, labels := scraped(t)
	require.NotEmpty(t, labels)
	text, err := os.ReadFile("../../tracing/dashboard.json")
	require.NoError(t, err)
	var board map[string]any
	require.NoError(t, json.Unmarshal(text, &board))
	used := checkNames(t, stringsIn(board), metrics, labels)
	for name := range metrics {
		assert.True(t, used[name] || !strings.HasPrefix(name, "lockbeat_"),
			"%s is not on the dashboard", name)
	}
}
