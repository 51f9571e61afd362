package tracing_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/tracing"
)

// facts are lines that say one thing each, so that two tellings of the same compare.
type facts map[string]bool

func (f facts) add(format string, args ...any) { f[fmt.Sprintf(format, args...)] = true }

// sorted makes a difference readable.
func (f facts) sorted() []string {
	var lines []string
	for line := range f {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// TELEMETRY.md says what is emitted, no less and no more.
func TestTheTableTellsWhatIsEmitted(t *testing.T) {
	t.Parallel()
	emitted := make(facts)
	for _, mode := range []tracing.Option{nil, tracing.WithNames()} {
		s := newSeen()
		o := tracing.New(append(s.to, tracing.WithRenewSpans(), mode)...)
		for _, limit := range []int{0, 3} {
			everything(t.Context(), s, o, limit)
		}
		observe(t, s, emitted)
	}
	require.Equal(t, table(t).sorted(), emitted.sorted())
}

// everything lets an observer see all that can happen to a lock, or to a limit.
func everything(ctx context.Context, s *seen, o renewer.Observer, limit int) {
	ctx, request := s.tracer.Start(ctx, "request")
	defer request.End()
	start := renewer.AcquireStart{Name: "a", Limit: limit, Operation: "charge"}
	storeErrors := []error{renewer.ErrRejected, netError{timeout: true}, netError{}, errDown}
	ends := []error{
		renewer.ErrBusy, fmt.Errorf("%w: %w", renewer.ErrBusy, renewer.ErrQueueFull),
		fmt.Errorf("%w: %w", renewer.ErrBusy, renewer.ErrLimitClosed),
		fmt.Errorf("%w: %w", renewer.ErrBusy, renewer.ErrReplaced), renewer.ErrShutdown,
		context.Canceled,
		context.DeadlineExceeded, fmt.Errorf("%w: %w", context.Canceled, renewer.ErrLost), errDown,
	}
	for _, err := range storeErrors {
		ends = append(ends, fmt.Errorf("%w: %w", renewer.ErrUnavailable, err))
	}
	refused := func(start renewer.AcquireStart, err error) {
		asked := o.AcquireStart(ctx, start)
		o.Claim(asked)
		o.AcquireEnd(asked, renewer.AcquireEnd{
			AcquireStart: start, Err: err, Contended: true, Holder: other, Held: limit,
		})
	}
	for _, err := range ends {
		refused(start, err)
	}
	expects := start
	expects.RefusalExpected = true
	refused(expects, renewer.ErrBusy)

	fence := int64(0)
	hold := func() context.Context {
		fence++
		asked := o.AcquireStart(ctx, start)
		o.Claim(asked)
		return o.AcquireEnd(asked, renewer.AcquireEnd{
			AcquireStart: start, Fence: fence, Contended: true, HandedOver: fence%2 == 0, Held: limit,
		})
	}
	release := func(ctx context.Context, lost *renewer.LostError, err error) {
		if lost != nil {
			o.Lost(ctx, renewer.Lost{Name: "a", Operation: "charge", Fence: fence, Err: lost})
		}
		o.Released(ctx, renewer.Released{
			Name: "a", Operation: "charge", Fence: fence, Lost: lost,
			Err: err,
		})
	}
	for _, outcome := range []renewer.Outcome{
		renewer.OutcomeAdded, renewer.OutcomeRan, renewer.OutcomeCut, renewer.OutcomeSkipped,
		renewer.OutcomeMissed, renewer.OutcomeNotRun,
	} {
		for _, err := range []error{nil, errDown} {
			o.Ran(ctx, renewer.Run{
				Job: "charge", Outcome: outcome, Err: err, LastSuccess: time.Now(), DueBy: time.Now(),
			})
		}
	}
	o.Unlocked(ctx, renewer.Unlocked{Name: "a", Operation: "charge", Err: errDown})
	for reason := range renewer.ReasonReplaced + 2 {
		release(hold(), &renewer.LostError{
			Name: "a", Reason: reason, Found: []string{"", "deleted", "overwritten", "owner"}[reason%4],
			Holder: other,
			Err:    append(storeErrors, nil)[reason%5],
		}, nil)
	}
	for _, err := range append(storeErrors, nil) {
		held := hold()
		o.Missed(held, renewer.Missed{Name: "a", Operation: "charge", Err: err})
		beat := o.RenewStart(ctx,
			renewer.RenewStart{Leases: 3, Contexts: slices.Values([]context.Context{held})})
		o.Renewed(beat, renewer.Renewed{
			Leases: 3, OK: 1, Gone: 1, Failed: 1, Lag: time.Millisecond,
			Err: err,
		})
		release(held, nil, err)
	}
}

// netError is what a network says.
type netError struct{ timeout bool }

func (netError) Error() string   { return "reset by peer" }
func (e netError) Timeout() bool { return e.timeout }
func (netError) Temporary() bool { return false }

// observe writes down what was emitted.
func observe(t *testing.T, s *seen, f facts) {
	t.Helper()
	for _, span := range s.spans.Ended() {
		for _, e := range span.Events() {
			f.add("event %s on %s", e.Name, span.Name())
			f.attributes(e.Name, e.Attributes)
		}
		if span.Name() == "request" {
			continue
		}
		require.Equal(t, trace.SpanKindInternal, span.SpanKind())
		f.add("span %s", span.Name())
		f.attributes(span.Name(), span.Attributes())
	}
	for name, m := range s.metrics(t) {
		instrument := ""
		switch data := m.Data.(type) {
		case metricdata.Gauge[float64]:
			instrument = "gauge"
		case metricdata.Histogram[float64]:
			instrument = "histogram"
		case metricdata.Sum[int64]:
			instrument = "up-down counter"
			if data.IsMonotonic {
				instrument = "counter"
			}
		}
		f.add("metric %s: %s in %s: %s", name, instrument, m.Unit, m.Description)
		for _, set := range sets(m) {
			f.attributes(name, set.ToSlice())
		}
	}
}

// enumerated are the attributes whose values are listed.
var enumerated = []string{"lockbeat.outcome", "lockbeat.reason", "lockbeat.found", "error.type"}

func (f facts) attributes(on string, kvs []attribute.KeyValue) {
	types := map[attribute.Type]string{
		attribute.STRING: "string", attribute.INT64: "int",
		attribute.FLOAT64: "double", attribute.BOOL: "bool",
	}
	for _, kv := range kvs {
		f.add("attribute %s: %s on %s", kv.Key, types[kv.Value.Type()], on)
		if slices.Contains(enumerated, string(kv.Key)) {
			f.add("value %s of %s on %s", kv.Value.AsString(), kv.Key, on)
		}
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// names are the quoted names in a cell.
func names(cell string) []string {
	var found []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

// table reads TELEMETRY.md.
func table(t *testing.T) facts {
	t.Helper()
	text, err := os.ReadFile("../../tracing/TELEMETRY.md")
	require.NoError(t, err)
	f, section := make(facts), ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for _, name := range names(cells[0]) {
			f.row(t, section, name, cells)
		}
	}
	return f
}

// row reads one row.
func (f facts) row(t *testing.T, section, name string, cells []string) {
	t.Helper()
	switch section {
	case "Spans":
		f.add("span %s", name)
	case "Attributes":
		for _, on := range names(cells[2]) {
			f.add("attribute %s: %s on %s", name, cells[1], on)
		}
	case "Values":
		for _, on := range names(cells[1]) {
			for _, value := range names(cells[2]) {
				f.add("value %s of %s on %s", value, name, on)
			}
		}
	case "Events":
		f.add("event %s on %s", name, names(cells[1])[0])
		if strings.Contains(cells[1], "the caller had") {
			f.add("event %s on request", name)
		}
	case "Metrics":
		f.add("metric %s: %s in %s: %s", name, cells[1], cells[2], cells[3])
	default:
		require.Failf(t, "unknown", "section %q", section)
	}
}
