package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/lockbeat/lockbeat/renewer"
)

// Boundaries of the histograms' buckets, in seconds.
var (
	// From a round trip on a local network to a waiter's patience.
	waitBuckets = []float64{
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
		30, 60,
	}
	// From a cache entry to a nightly job.
	holdBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600}
	// From a look at the context in time to an operation that never looks.
	overrunBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300}
	// From a scheduler that is on time to one that is starved: some TTLs are a
	// second long.
	lagBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
)

type instruments struct {
	acquireDuration, holdDuration, overrunDuration, runDuration, renewLag metric.Float64Histogram
	renewals, losses, unlocked, refusals, atLimit, runs                   metric.Int64Counter

	// Renewals are sent for many operations at once.
	batch                          []metric.RecordOption
	renewed, renewGone, renewsFail []metric.AddOption
}

func (s *settings) newInstruments() instruments {
	m := s.meter()
	and := func(outcome string) []metric.AddOption {
		return []metric.AddOption{
			metric.WithAttributes(append(s.static, attribute.String(keyOutcome, outcome))...),
		}
	}
	return instruments{
		acquireDuration: histogram(m, metricAcquireDuration,
			"How long callers took to get a lock, or to be refused it.", waitBuckets),
		holdDuration: histogram(m, metricHoldDuration,
			"How long locks were held, up to their release or loss.", holdBuckets),
		overrunDuration: histogram(m, metricOverrunDuration,
			"How long operations ran on after they were told that their lock was lost.",
			overrunBuckets),
		runDuration: histogram(m, metricRunDuration,
			"How long runs of jobs took, with their lock.", holdBuckets),
		runs: counter(m, metricRuns, "Runs of jobs, and ticks that were not run, by outcome.",
			"{run}"),
		renewLag: histogram(m, metricRenewLag,
			"How long after it was due a batch of renewals was sent.", lagBuckets),
		renewals: counter(m, metricRenewals, "Renewals of locks held, by outcome.",
			"{renewal}"),
		losses: counter(m, metricLosses,
			"Locks lost before their operation had ended, by reason.", "{loss}"),
		unlocked: counter(m, metricUnlocked,
			"Operations that ran without their lock or slot, since its store was down.",
			"{operation}"),
		refusals: counter(m, metricRefusals,
			"Callers who got no lock or slot since others had it, or the limit was closed, "+
				"and did not expect that, by outcome.", "{refusal}"),
		atLimit: counter(m, metricAtLimit,
			"Acquires that found their limit full or closed, or others in line, by outcome.",
			"{acquire}"),
		batch:      []metric.RecordOption{metric.WithAttributes(s.static...)},
		renewed:    and("ok"),
		renewGone:  and("gone"),
		renewsFail: and("failed"),
	}
}

// countNone makes the series of renewals before there is any. Prometheus reads
// how much a counter has grown since it is there: of one that begins at 1, the
// first is missed.
func (n *instruments) countNone() {
	for _, outcome := range [][]metric.AddOption{n.renewed, n.renewGone, n.renewsFail} {
		n.renewals.Add(context.Background(), 0, outcome...)
	}
}

// countNoneOf does so for an operation. Reasons of losses that were ordered, or
// are rare, are left out: the SDK puts all beyond 2,000 series of a metric into
// one.
func (n *instruments) countNoneOf(s *series) {
	ctx := context.Background()
	n.unlocked.Add(ctx, 0, s.unlocked...)
	for _, refused := range s.refused {
		if refused != nil {
			n.refusals.Add(ctx, 0, refused...)
		}
	}
	for _, reason := range []renewer.Reason{
		renewer.ReasonExpired, renewer.ReasonTaken, renewer.ReasonMaxHold,
	} {
		n.losses.Add(ctx, 0, s.losses[reasonOf(reason)]...)
	}
}

// observeSeries has what there is now read from the series, and from the
// keepers, whenever metrics are collected.
func (o *observer) observeSeries() {
	m := o.meter()
	held := upDown(m, metricHeld, "Locks, and slots of limits, held.", "{lock}")
	waiting := upDown(m, metricWaiting, "Callers who are asking or waiting for a lock.", "{caller}")
	overrunning := upDown(m, metricOverrunning,
		"Operations that have not returned since they were told that their lock was lost.",
		"{operation}")
	holdOldest := gauge(m, metricHoldOldest,
		"How long the lock has been held that is held for longest, leaders left out.")
	waitOldest := gauge(m, metricWaitOldest,
		"How long the caller has waited who waits for longest, leaders' stand-bys left out.")
	inLine := upDown(m, metricTasksInLine,
		"Tasks in line for locks, as the process last saw it; the others see the same.", "{task}")
	lastSuccess := gauge(m, metricRunLastSuccess,
		"When a run of the job last succeeded, on any node, as a Unix time.")
	dueBy := gauge(m, metricRunDueBy, "By when a run of the job has to succeed, as a Unix time: "+
		"two ticks after the last success, and the time that it took.")
	outage := gauge(m, metricStoreOutage, "How long the locks' store, or a shard of it, has been "+
		"away that calls are refused for; 0 while it is there, or a fail-over may go on.")
	static := metric.WithAttributes(o.static...)
	_, err := m.RegisterCallback(func(_ context.Context, out metric.Observer) error {
		out.ObserveInt64(inLine, o.inLine.Load(), static)
		out.ObserveFloat64(outage, o.outageNow().Seconds(), static)
		ages := o.oldestNow()
		for _, c := range []*catalogue{o.locks, o.limits} {
			for _, s := range *c.known.Load() {
				out.ObserveInt64(held, s.held.Load(), s.observed...)
				out.ObserveInt64(waiting, s.waiting.Load(), s.observed...)
				// Released may come before Lost
				out.ObserveInt64(overrunning, max(0, s.overrunning.Load()), s.observed...)
				out.ObserveFloat64(holdOldest, ages[s].hold.Seconds(), s.observed...)
				out.ObserveFloat64(waitOldest, ages[s].wait.Seconds(), s.observed...)
				s.lastSuccess.observe(out, lastSuccess, s.observed)
				s.dueBy.observe(out, dueBy, s.observed)
			}
		}
		return nil
	}, held, waiting, overrunning, inLine, outage, holdOldest, waitOldest, lastSuccess, dueBy)
	if err != nil {
		otel.Handle(err)
	}
}

func (s *settings) meter() metric.Meter {
	return s.meters.Meter(scopeName, metric.WithInstrumentationVersion(version))
}

func histogram(
	m metric.Meter, name, description string, buckets []float64,
) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithDescription(description), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(buckets...))
	return orNothing[metric.Float64Histogram](h, err, noop.Float64Histogram{})
}

func upDown(m metric.Meter, name, description, unit string) metric.Int64ObservableUpDownCounter {
	c, err := m.Int64ObservableUpDownCounter(name, metric.WithDescription(description),
		metric.WithUnit(unit))
	return orNothing[metric.Int64ObservableUpDownCounter](c, err,
		noop.Int64ObservableUpDownCounter{})
}

func gauge(m metric.Meter, name, description string) metric.Float64ObservableGauge {
	g, err := m.Float64ObservableGauge(name, metric.WithDescription(description),
		metric.WithUnit("s"))
	return orNothing[metric.Float64ObservableGauge](g, err, noop.Float64ObservableGauge{})
}

func counter(m metric.Meter, name, description, unit string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithDescription(description), metric.WithUnit(unit))
	return orNothing[metric.Int64Counter](c, err, noop.Int64Counter{})
}

// orNothing replaces an instrument that could not be made by one that does
// nothing, and gives the error to the program's own handler: no lock should
// fail because a metric does. An instrument that comes with an error is used,
// as the SDK does.
func orNothing[T comparable](instrument T, err error, nothing T) T {
	if err != nil {
		otel.Handle(err)
	}
	var none T
	if instrument == none {
		return nothing
	}
	return instrument
}
