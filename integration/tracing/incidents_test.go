package tracing_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/tracing"
)

// The rules are played with series written by hand.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	testRules(t, "../../tracing/alerts_test.yaml")
}

// testRules has promtool play a file.
func testRules(t *testing.T, file string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		tool, err = exec.LookPath("../../bin/promtool")
	}
	if err != nil {
		const missing = "promtool is not installed; `scripts/ensure promtool` installs it"
		if os.Getenv("LOCKBEAT_REQUIRE_PROMTOOL") == "1" {
			require.Fail(t, missing)
		}
		t.Skip(missing)
	}
	said, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", said)
}

const (
	every   = 15 * time.Second  // scrapes
	trouble = 121 * time.Second // is when it begins
)

// plant is programs on one store, in a bubble, and what Prometheus scrapes of them.
type plant struct {
	t        *testing.T
	store    *memory.Store
	programs []*program
	series   map[string][]string // the values of each, a scrape after the other
	begun    time.Time
	scrapes  int
	running  sync.WaitGroup
	over     chan struct{}
}

// program is one instance.
type program struct {
	*plant

	name     string
	keeper   *renewer.Keeper
	registry *prometheus.Registry
}

// playIncidents lets programs run in a bubble for a while. What Prometheus scrapes goes to
// promtool, which is to find these alerts 90 s after the trouble began, and none before.
func playIncidents(
	t *testing.T, lasts time.Duration, run func(*plant), want ...string,
) {
	t.Helper()
	p := &plant{store: memory.New(), series: make(map[string][]string)}
	synctest.Test(t, func(t *testing.T) {
		p.t, p.over, p.begun = t, make(chan struct{}), time.Now()
		run(p)
		for range lasts / every {
			p.scrape()
			waitFor(every)
		}
		close(p.over)
		p.running.Wait()
		for _, one := range p.programs {
			require.NoError(t, one.keeper.Shutdown(t.Context()))
		}
	})
	rules, err := filepath.Abs("../../tracing/alerts.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "incidents.yaml")
	require.NoError(t, os.WriteFile(file, p.rulesTest(rules, lasts, want), 0o600))
	testRules(t, file)
}

// start starts a program.
func (p *plant) start(name string) *program {
	p.t.Helper()
	one := &program{plant: p, name: name, registry: prometheus.NewRegistry()}
	reader, err := exporter.New(exporter.WithRegisterer(one.registry))
	require.NoError(p.t, err)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	one.keeper, err = renewer.New(p.store, renewer.Config{
		TTL: renewer.DefaultTTL, Node: name, Observer: tracing.New(tracing.WithMeterProvider(provider)),
	})
	require.NoError(p.t, err)
	p.programs = append(p.programs, one)
	return one
}

// each calls f at intervals from the start on, each time in a goroutine of its own.
func (p *plant) each(interval time.Duration, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(p.t.Context())
	p.running.Go(func() {
		defer cancel()
		for {
			select {
			case <-time.After(interval):
				p.running.Go(func() { f(ctx) })
			case <-p.over:
				return
			}
		}
	})
}

// inTrouble calls f once, when the trouble begins.
func (p *plant) inTrouble(f func()) {
	begins := time.Now().Add(trouble)
	p.running.Go(func() {
		waitFor(time.Until(begins))
		f()
	})
}

// scrape reads what all programs expose, as text.
func (p *plant) scrape() {
	synctest.Wait()
	for _, one := range p.programs {
		families, err := one.registry.Gather()
		require.NoError(p.t, err)
		var text bytes.Buffer
		for _, family := range families {
			_, err := expfmt.MetricFamilyToText(&text, family)
			require.NoError(p.t, err)
		}
		for line := range strings.Lines(text.String()) {
			at := strings.LastIndex(line, " ")
			if strings.HasPrefix(line, "#") || !strings.HasPrefix(line, "lockbeat_") {
				continue
			}
			name := strings.Replace(line[:at], "{",
				fmt.Sprintf(`{job="plant",instance=%q,`, one.name), 1)
			for len(p.series[name]) < p.scrapes {
				p.series[name] = append(p.series[name], "_")
			}
			value := strings.TrimSpace(line[at:])
			if strings.Contains(name, "_timestamp_seconds{") { // promtool begins at 0
				at, err := strconv.ParseFloat(value, 64)
				require.NoError(p.t, err)
				value = fmt.Sprint(at - float64(p.begun.Unix()))
			}
			p.series[name] = append(p.series[name], value)
		}
	}
	p.scrapes++
}

// rulesTest is a file for promtool.
func (p *plant) rulesTest(rules string, lasts time.Duration, want []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: %v\ntests:\n- interval: %v\n"+
		"  input_series:\n", rules, every, every)
	for name, values := range p.series {
		fmt.Fprintf(&b, "  - {series: '%s', values: '%s'}\n", name, strings.Join(values, " "))
	}
	b.WriteString("  promql_expr_test:\n")
	ask := func(at time.Duration, want []string) {
		fmt.Fprintf(&b, "  - expr: count by (alertname, instance, lockbeat_operation) "+
			"(count_over_time(ALERTS{alertstate=\"firing\"}[1h]))\n    eval_time: %v\n"+
			"    exp_samples:\n", at)
		for _, alert := range want {
			fmt.Fprintf(&b, "    - {labels: '{%s}', value: 1}\n", alert)
		}
	}
	ask(trouble-time.Second, nil)
	ask(trouble+90*time.Second, want)
	if len(want) == 0 {
		ask(lasts, nil)
	}
	return b.Bytes()
}

// calls sends a request to a handler that transfers, as a client does.
func calls(handler http.Handler, account string) func(context.Context) {
	return func(ctx context.Context) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/accounts/"+account, nil)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// transfers is a handler under a lock for each account.
func (p *program) transfers(work http.HandlerFunc) http.Handler {
	return under(p, httpmw.PathValue("account", "id"), work)
}

func under[N lockmw.Name](
	p *program, key func(*http.Request) N, work http.HandlerFunc,
) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}",
		httpmw.Middleware(p.keeper, key, lockmw.Operation("transfer"))(work))
	return mux
}

// scheduled calls a job at each tick, as a scheduler does.
func (p *program) scheduled(
	period time.Duration, work func(context.Context) error, opts ...cronmw.Option,
) {
	ctx, stop := context.WithCancel(p.t.Context())
	node, err := cronmw.New(ctx, p.keeper)
	require.NoError(p.t, err)
	job, err := node.Job("report", cronmw.Every(period), work, opts...)
	require.NoError(p.t, err)
	p.each(period, func(context.Context) { job.Run() })
	p.running.Go(func() { <-p.over; stop() })
}

// What an operator is to hear of within 90 s, by what is exposed: a handler that hangs, a name that
// too many want, a limit that is 0 by mistake, and a job that fails from some tick on.
func TestIncidentsAreTold(t *testing.T) {
	t.Parallel()
	playIncidents(t, 4*time.Minute, func(p *plant) {
		hung := p.start("hung")
		var stuck atomic.Bool
		handler := hung.transfers(func(http.ResponseWriter, *http.Request) {
			if stuck.Load() {
				<-p.over
			}
		})
		p.each(2*time.Second, calls(handler, "7"))
		p.inTrouble(func() { stuck.Store(true) })

		hot := p.start("hot")
		handler = hot.transfers(func(http.ResponseWriter, *http.Request) {
			waitFor(1500 * time.Millisecond)
		})
		call := calls(handler, "8")
		p.each(20*time.Second, call)
		p.inTrouble(func() {
			for range 20 {
				p.running.Go(func() { call(p.t.Context()) })
			}
		})

		closed := p.start("closed")
		var n atomic.Int64
		n.Store(3)
		handler = under(closed, func(r *http.Request) lockmw.Set {
			return lockmw.LimitFunc(lockmw.Key("account", r.PathValue("id")),
				func() int { return int(n.Load()) })
		}, func(http.ResponseWriter, *http.Request) {})
		p.each(5*time.Second, calls(handler, "9"))
		p.inTrouble(func() { n.Store(0) })

		var fails atomic.Bool
		for _, name := range []string{"node-1", "node-2"} {
			p.start(name).scheduled(20*time.Second, func(context.Context) error {
				if fails.Load() {
					return errDown
				}
				return nil
			})
		}
		p.inTrouble(func() { fails.Store(true) })
	},
		`alertname="LockRunOverdue", lockbeat_operation="report"`,
		`alertname="LockRefused", instance="hung", lockbeat_operation="transfer"`,
		`alertname="LockRefused", instance="hot", lockbeat_operation="transfer"`,
		`alertname="LockLimitClosed", instance="closed", lockbeat_operation="transfer"`)
}

// What no operator is to be woken by: jobs that come back, calls that are skipped, a client that
// leaves, a refusal in a quiet hour, a leader, and nodes that stand by.
func TestWhatIsExpectedIsNotTold(t *testing.T) {
	t.Parallel()
	playIncidents(t, 6*time.Minute, func(p *plant) {
		worker := p.start("worker")
		job := jobs.Wrap(worker.keeper, func(id string) string { return id },
			func(context.Context, string) error { waitFor(50 * time.Second); return nil },
			lockmw.Refuse())
		p.each(5*time.Second, func(ctx context.Context) {
			job(ctx, jobs.Delivery{Kind: "fulfil", ID: "1"}, "order:1")
		})

		api := p.start("api")
		p.each(2*time.Second, func(ctx context.Context) {
			_ = lockmw.Run(ctx, api.keeper, "report", func(context.Context) error {
				waitFor(20 * time.Second)
				return nil
			}, lockmw.Skip(), lockmw.Operation("report"))
		})
		handler := api.transfers(func(http.ResponseWriter, *http.Request) {
			waitFor(11 * time.Second)
		})
		p.each(4*time.Minute, func(ctx context.Context) {
			p.running.Go(func() { calls(handler, "7")(ctx) })
			calls(handler, "7")(ctx) // this one, or that, is refused
		})
		p.each(30*time.Second, func(ctx context.Context) {
			ctx, leave := context.WithCancel(ctx)
			time.AfterFunc(time.Second, leave)
			_ = lockmw.Run(ctx, api.keeper, "leader",
				func(context.Context) error { return nil }, lockmw.Operation("look"))
		})

		for _, name := range []string{"node-1", "node-2", "node-3"} {
			node := p.start(name)
			node.scheduled(2*time.Minute, func(context.Context) error {
				waitFor(100 * time.Second)
				return nil
			}, cronmw.TakeOver(3), lockmw.MaxHold(lockmw.NoBound))
			p.running.Go(func() {
				ctx, stop := context.WithCancel(p.t.Context())
				go func() { <-p.over; stop() }()
				_ = lockmw.Lead(ctx, node.keeper, "leader",
					func(ctx context.Context) error { <-ctx.Done(); return nil },
					lockmw.Operation("lead"))
			})
		}
	})
}
