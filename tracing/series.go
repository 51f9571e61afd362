package tracing

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// mostOperations bounds what is kept, and what metrics there are,
	// should a program make operations of its keys.
	mostOperations = 256
	// mostOperationBytes bounds an operation's name in an attribute.
	mostOperationBytes = 128
	// reasons counts the reasons for a loss, from 0 for an unknown one.
	reasons = int(renewer.ReasonReplaced) + 1
)

// series is all that can be made once for an operation: attributes in the form
// in which the API takes them, so that a measurement allocates nothing.
type series struct {
	limited  bool // these are slots of limits, not locks
	start    []trace.SpanStartOption
	acquired [][]metric.RecordOption // by outcome
	refused  [][]metric.AddOption    // by outcome; nil for one that is no refusal
	atLimit  [][]metric.AddOption    // by outcome
	released []metric.RecordOption
	lost     []metric.RecordOption
	losses   [reasons][]metric.AddOption
	unlocked []metric.AddOption
	overruns [reasons][]metric.RecordOption

	// What lockbeat.held, .waiting and .overrunning are read from: to count
	// them here costs a tenth of what a counter's Add does.
	held, waiting, overrunning atomic.Int64
	observed                   []metric.ObserveOption

	lastSuccess, dueBy moment // of a job
}

func (s *settings) newSeries(operation string, limited bool) *series {
	operation = printable(operation, mostOperationBytes)
	attrs := s.static
	if operation != "" {
		attrs = append(attrs, attribute.String(keyOperation, operation))
	}
	n := &series{
		limited: limited,
		start: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindInternal),
			trace.WithAttributes(attrs...),
		},
		unlocked: []metric.AddOption{metric.WithAttributes(attrs...)},
	}
	and := func(key, value string) metric.MeasurementOption {
		return metric.WithAttributes(append(attrs, attribute.String(key, value))...)
	}
	for _, o := range outcomes {
		n.atLimit = append(n.atLimit, []metric.AddOption{and(keyOutcome, o.name)})
	}
	if limited {
		attrs = append(attrs, attribute.Bool(keyLimited, true))
	}
	n.observed = []metric.ObserveOption{metric.WithAttributes(attrs...)}
	for _, o := range outcomes {
		outcome := and(keyOutcome, o.name)
		n.acquired = append(n.acquired, []metric.RecordOption{outcome})
		n.refused = append(n.refused, nil)
		if slices.Contains(refusals, o.name) && (limited || o.name != outcomeClosed) {
			n.refused[len(n.refused)-1] = []metric.AddOption{outcome}
		}
	}
	n.released = []metric.RecordOption{and(keyOutcome, endReleased)}
	n.lost = []metric.RecordOption{and(keyOutcome, endLost)}
	for r := range reasons {
		reason := and(keyReason, renewer.Reason(r).String())
		n.losses[r] = []metric.AddOption{reason}
		n.overruns[r] = []metric.RecordOption{reason}
	}
	return n
}

// begin makes the series of an operation that is seen for the first time.
func (o *observer) begin(operation string, limited bool) *series {
	s := o.newSeries(operation, limited)
	o.countNoneOf(s)
	return s
}

// reasonOf is a reason as an index.
func reasonOf(r renewer.Reason) int {
	if int(r) < reasons {
		return int(r)
	}
	return 0
}

// catalogue has the series of the operations seen so far. Reading it takes no
// lock.
type catalogue struct {
	build func(operation string) *series
	known atomic.Pointer[map[string]*series]
	mu    sync.Mutex // held while known is replaced
}

func newCatalogue(build func(operation string) *series) *catalogue {
	c := &catalogue{build: build}
	c.known.Store(new(map[string]*series))
	return c
}

// of is the series of an operation.
func (c *catalogue) of(operation string) *series {
	if s := (*c.known.Load())[operation]; s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *c.known.Load()
	if len(known) >= mostOperations {
		operation = otherOperation
	}
	if s := known[operation]; s != nil {
		return s
	}
	more := make(map[string]*series, len(known)+1)
	maps.Copy(more, known)
	s := c.build(operation)
	more[operation] = s
	c.known.Store(&more)
	return s
}

// keepers are those whose observer this is. They are asked when metrics are
// collected: to note in each acquire when it began would cost every one of
// them.
type keepers struct {
	mu  sync.Mutex
	all []*renewer.Keeper
}

// add notes one more.
func (ks *keepers) add(k *renewer.Keeper) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.all = append(ks.all, k)
}

// open are those that are not shut down. The others are let go of.
func (ks *keepers) open() []*renewer.Keeper {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.all = slices.DeleteFunc(ks.all, func(k *renewer.Keeper) bool {
		return errors.Is(k.HealthCheck(), renewer.ErrShutdown)
	})
	return slices.Clone(ks.all)
}

// Started notes a keeper, which is asked for the oldest lock and the oldest
// waiter.
func (o *observer) Started(k *renewer.Keeper) { o.keepers.add(k) }

// outageNow is for how long the store has been away that has been so for
// longest.
func (o *observer) outageNow() (longest time.Duration) {
	for _, k := range o.keepers.open() {
		longest = max(longest, k.Outage(""))
	}
	return longest
}

// TasksInLine counts the tasks that stand in line.
func (o *observer) TasksInLine(e renewer.TasksInLine) { o.inLine.Add(int64(e.Change)) }

// oldest is for how long a lock of a series has been held, and a caller has
// waited, at most.
type oldest struct{ hold, wait time.Duration }

// oldestNow is that of each series that has any. Leaders and their stand-bys,
// which go on for as long as they may, are left out; and so are locks that are
// lost, which lockbeat.overrunning counts.
func (o *observer) oldestNow() map[*series]oldest {
	found := make(map[*series]oldest)
	for _, k := range o.keepers.open() {
		for h := range k.Holdings() {
			if h.Lost == nil && !h.LongRunning {
				s := o.seriesOf(h.Operation, h.Limited)
				f := found[s]
				f.hold = max(f.hold, time.Since(h.Since))
				found[s] = f
			}
		}
		for w := range k.Waiting() {
			if !w.LongRunning {
				s := o.seriesOf(w.Operation, w.Limited)
				f := found[s]
				f.wait = max(f.wait, time.Since(w.Since))
				found[s] = f
			}
		}
	}
	return found
}

// seriesOf is that of an operation on locks, or on limits.
func (o *observer) seriesOf(operation string, limited bool) *series {
	if limited {
		return o.limits.of(operation)
	}
	return o.locks.of(operation)
}
