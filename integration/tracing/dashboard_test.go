package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// series are the labels of each sample name in a scrape, as Prometheus sees them.
type series map[string][]string

// scraped lets every metric happen, and reads it over HTTP in Prometheus' own format.
func scraped(t *testing.T) series {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	inBubble(
		t, allThatIsMeasured, tracing.WithMeterProvider(
			sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		),
	)

	server := httptest.NewServer(promhttp.HandlerFor(registry,
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	res, err := server.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(t, err)
	found := make(series)
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := []string{"job", "instance"} // which Prometheus adds
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if m.GetHistogram() == nil {
				found[name] = append(found[name], labels...)
				continue
			}
			for _, suffix := range []string{"_sum", "_count"} {
				found[name+suffix] = append(found[name+suffix], labels...)
			}
			found[name+"_bucket"] = append(found[name+"_bucket"], append(labels, "le")...)
		}
	}
	return found
}

// allThatIsMeasured is an operation without its lock, and a lock held and freed, refused, waited
// for in vain, renewed with and without success, lost and overrun.
func allThatIsMeasured(t *testing.T, s *scene) {
	work := renewer.Operation("transfer")
	s.keeper.Config().Observer.Unlocked(t.Context(),
		renewer.Unlocked{Name: "a", Operation: "transfer"})
	l := s.acquire(t.Context(), t, "a", work)
	_, err := s.keeper.TryAcquire(t.Context(), "a", work)
	require.Error(t, err)
	s.store.Script(script.Renew, script.Pass(), script.Fail(errors.New("connection refused")),
		script.Gone())
	<-l.Context().Done()
	waitFor(time.Second)
	require.Error(t, l.Release(l.Context()))
	l = s.acquire(t.Context(), t, "a", work)
	require.NoError(t, l.Release(context.Background()))
}

// query is one PromQL expression of the dashboard.
type query struct{ where, text string }

func dashboard(t *testing.T) (queries []query) {
	t.Helper()
	data, err := os.ReadFile("../../tracing/dashboard.json")
	require.NoError(t, err)
	var board struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Title       string
			Description string
			Datasource  struct{ Type, UID string }
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, RefID string }
		}
		Templating struct {
			List []struct {
				Name, Type string
				Definition string
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &board))
	require.NotEmpty(t, board.Title)
	require.NotEmpty(t, board.UID)
	require.Positive(t, board.SchemaVersion)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "panel %q has another's number", p.Title)
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "panel %q covers another", p.Title)
				require.Less(t, at[0], 24, "panel %q is off the board", p.Title)
				taken[at] = p.Title
			}
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.Equal(t, "prometheus", p.Datasource.Type)
		require.Equal(t, "${datasource}", p.Datasource.UID)
		require.NotEmpty(t, p.Targets)
		for _, target := range p.Targets {
			require.NotEmpty(t, target.RefID)
			queries = append(queries, query{p.Title, target.Expr})
		}
	}
	var variables []string
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" {
			queries = append(queries, query{"variable " + v.Name, v.Definition})
		}
	}
	for _, q := range queries {
		for _, used := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.text, -1) {
			require.Contains(t, append(variables, "__rate_interval"), used[1], q.where)
		}
	}
	return queries
}

var (
	inQuotes  = regexp.MustCompile(`"[^"]*"`)
	selectors = regexp.MustCompile(`([a-zA-Z_]\w*)\s*\{([^}]*)\}`)
	matchers  = regexp.MustCompile(`([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)`)
	groupings = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
	variables = regexp.MustCompile(
		`label_values\(\s*(?:([a-zA-Z_]\w*)(?:\{[^}]*\})?\s*,)?\s*([a-zA-Z_]\w*)\s*\)`,
	)
	bare = regexp.MustCompile(`\blockbeat_\w+\b`)
)

// namesIn finds the metrics in a query, and the labels that each must have.
func namesIn(text string) map[string][]string {
	text = inQuotes.ReplaceAllString(text, `""`)
	names := make(map[string][]string)
	var all []string // labels that every metric of the query must have
	for _, m := range groupings.FindAllStringSubmatch(text, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			all = append(all, strings.TrimSpace(label))
		}
	}
	for _, m := range variables.FindAllStringSubmatch(text, -1) {
		all = append(all, m[2])
		text = strings.ReplaceAll(text, ", "+m[2]+")", ")")
	}
	for _, m := range selectors.FindAllStringSubmatch(text, -1) {
		for _, label := range matchers.FindAllStringSubmatch(m[2], -1) {
			names[m[1]] = append(names[m[1]], label[1])
		}
	}
	rest := groupings.ReplaceAllString(selectors.ReplaceAllString(text, "$1 "), "")
	for _, name := range bare.FindAllString(rest, -1) {
		names[name] = append(names[name], all...)
	}
	return names
}

// A metric or an attribute that is renamed in one place only shows here.
func TestDashboard(t *testing.T) {
	t.Parallel()
	have := scraped(t)
	require.NotEmpty(t, have)
	used := make(map[string]bool)
	for _, q := range dashboard(t) {
		names := namesIn(q.text)
		require.NotEmpty(t, names, "%s: %s", q.where, q.text)
		for name, labels := range names {
			if !assert.Contains(t, have, name, "%s: there is no such metric", q.where) {
				continue
			}
			for _, label := range labels {
				assert.Contains(t, have[name], label, "%s: %s has no such label", q.where, name)
			}
			used[name] = true
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "lockbeat_") && !strings.HasSuffix(name, "_sum") &&
			!strings.HasSuffix(name, "_count") {
			assert.True(t, used[name], "%s is not on the dashboard", name)
		}
	}
}

// What the test itself must see.
func TestNamesInQueries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string][]string{
		`sum(lockbeat_held)`: {"lockbeat_held": nil},
		`sum by (a, b) (rate(lockbeat_x_total{c=~"$d"}[5m]))`: {"lockbeat_x_total": {
			"a", "b",
			"c",
		}},
		`lockbeat_x{c="lockbeat_y{z=1}",d!="e"} / lockbeat_w`: {
			"lockbeat_x": {"c", "d"},
			"lockbeat_w": nil,
		},
		`histogram_quantile(0.5, sum by (le) (lockbeat_x_b))`: {"lockbeat_x_b": {"le"}},
		`label_values(lockbeat_x{job=~"$job"}, lockbeat_op)`: {"lockbeat_x": {
			"job",
			"lockbeat_op",
		}},
		`label_values(lockbeat_x, job)`: {"lockbeat_x": {"job"}},
		`up`:                            {},
	} {
		got := namesIn(text)
		for name := range got {
			slices.Sort(got[name])
		}
		assert.Len(t, got, len(want), text)
		for name, labels := range want {
			assert.ElementsMatch(t, labels, got[name], text)
		}
	}
}
