package page_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/tracing"
)

// shop is two processes that share a store.
type shop struct {
	store     *distant
	processes []*process
	calls     sync.WaitGroup
}

type process struct {
	name     string
	keeper   *renewer.Keeper
	observer renewer.Observer
	registry *prometheus.Registry
}

// distant is a store that is a millisecond away, or for now can't be reached.
type distant struct {
	engine.Whole

	away atomic.Bool
}

func (s *distant) Engine() store.Store { return s }

func (s *distant) reach(ctx context.Context) error {
	if s.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(time.Millisecond)
	return nil
}

func (s *distant) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	if err := s.reach(ctx); err != nil {
		return slices.Repeat([]store.Grant{{Err: err}}, len(claims))
	}
	return s.Whole.Acquire(ctx, claims)
}

func (s *distant) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	if err := s.reach(ctx); err != nil {
		return slices.Repeat([]store.Answer{{Err: err}}, len(holds))
	}
	return s.Whole.Renew(ctx, holds)
}

func (s *distant) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	if err := s.reach(ctx); err != nil {
		return slices.Repeat([]store.Answer{{Err: err}}, len(holds))
	}
	return s.Whole.Release(ctx, holds)
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{store: &distant{Whole: engine.In(memory.New())}}
	for _, name := range []string{"web-1", "web-2"} {
		registry := prometheus.NewRegistry()
		reader, err := exporter.New(exporter.WithRegisterer(registry))
		require.NoError(t, err)
		o := tracing.New(tracing.WithMeterProvider(
			sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		keeper, err := renewer.New(s.store,
			renewer.Config{TTL: renewer.DefaultTTL, Node: name, Observer: o})
		require.NoError(t, err)
		s.processes = append(s.processes, &process{name, keeper, o, registry})
	}
	return s
}

// at is a time of the day. A bubble's clock begins at midnight.
func at(hour, minute int) time.Time {
	return time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC)
}

// from calls do at a time of the day.
func (s *shop) from(start time.Time, do func()) {
	s.calls.Go(func() {
		<-time.After(time.Until(start))
		do()
	})
}

// come makes calls from one time of the day to another, so many a minute, by one process and the
// other in turn.
func (s *shop) come(start, end time.Time, perMinute float64, call func(p *process, n int)) {
	s.from(start, func() {
		for n := 0; time.Now().Before(end); n++ {
			s.calls.Go(func() { call(s.processes[n%len(s.processes)], n) })
			<-time.After(time.Duration(rand.ExpFloat64() / perMinute * float64(time.Minute)))
		}
	})
}

// work runs under a lock for a while, or until that is lost. Its observer hears what becomes of it.
func (p *process) work(
	operation string, name lockmw.Set, d time.Duration, opts ...lockmw.Option,
) {
	_, _ = lockmw.Do(context.Background(), p.keeper, name,
		func(ctx context.Context) (any, error) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}, append(opts, lockmw.Operation(operation))...)
}

// about is a duration that is now shorter, now longer than d.
func about(d time.Duration) time.Duration {
	return d/3 + time.Duration(rand.ExpFloat64()*float64(d)*2/3)
}

// morning is what the shop does up to ten o'clock.
func (s *shop) morning() {
	open, end := at(8, 50), at(10, 0)
	s.come(open, end, 150, func(p *process, n int) {
		p.work("charge", lockmw.All(fmt.Sprint("order:", n)), about(2*time.Second))
	})
	s.come(open, end, 20, func(p *process, n int) {
		p.work("sync", lockmw.All(fmt.Sprint("warehouse:", n%99)), about(25*time.Second))
	})
	transfer := func(p *process, n int) {
		p.work("transfer", lockmw.All(fmt.Sprint("account:", n%50)), about(time.Second))
	}
	s.come(open, end, 60, transfer)
	s.come(at(9, 8), at(9, 13), 80, func(p *process, _ int) { transfer(p, 7) })
	chat := func(p *process, _ int) {
		p.work("chat", lockmw.Limit("llm", 4), about(6*time.Second), lockmw.LocalShare(2))
	}
	s.come(open, end, 18, chat)
	s.come(at(9, 50), at(9, 55), 30, chat)
	s.from(at(9, 16), s.invoices)
	s.from(at(9, 20), func() { s.processes[0].work("import", lockmw.All("customers"), 21*time.Minute) })
	s.from(at(9, 27), func() { // another import waits, and gives up
		s.processes[1].work("import", lockmw.All("customers"), time.Second, lockmw.Wait(6*time.Minute))
	})
	s.from(at(8, 50), s.mails)
	s.from(at(9, 34), s.report)
	s.from(at(9, 44), func() { // longer than a TTL
		s.store.away.Store(true)
		<-time.After(40 * time.Second)
		s.store.away.Store(false)
	})
}

// invoices are tasks of a queue for one lock. They stand in line as an adapter would tell.
func (s *shop) invoices() {
	p := s.processes[1]
	p.observer.TasksInLine(renewer.TasksInLine{Name: "tenant:5", Tasks: 40, Change: 40})
	for left := 39; left >= 0; left-- {
		p.observer.TasksInLine(renewer.TasksInLine{Name: "tenant:5", Tasks: left, Change: -1})
		p.work("invoice", lockmw.All("tenant:5"), about(6*time.Second))
	}
}

// mails are sent by a job of each five minutes, which tells as package cronmw would.
func (s *shop) mails() {
	const period, takes = 5 * time.Minute, 20 * time.Second
	for now := time.Now(); now.Before(at(10, 0)); now = time.Now() {
		<-time.After(takes)
		s.processes[0].observer.Ran(context.Background(), renewer.Run{
			Job: "mails", Outcome: renewer.OutcomeRan, Took: takes, LastSuccess: time.Now(),
			DueBy: now.Add(2*period + takes),
		})
		<-time.After(time.Until(now.Add(period)))
	}
}

// report takes longer than it may, and does not look at its context.
func (s *shop) report() {
	_, _ = lockmw.Do(context.Background(), s.processes[1].keeper, "report",
		func(context.Context) (any, error) {
			<-time.After(4 * time.Minute)
			return nil, nil
		}, lockmw.Operation("report"), lockmw.MaxHold(2*time.Minute))
}

// scrape runs the morning and reads the metrics of all processes every 15 seconds.
func scrape(t *testing.T) scrapes {
	t.Helper()
	s, all := newShop(t), make(scrapes)
	s.morning()
	<-time.After(time.Until(at(8, 55)))
	for !time.Now().After(at(10, 0)) {
		for _, p := range s.processes {
			families, err := p.registry.Gather()
			require.NoError(t, err)
			all.add(t, p.name, families)
		}
		<-time.After(every)
	}
	s.calls.Wait()
	for _, p := range s.processes {
		require.NoError(t, p.keeper.Shutdown(t.Context()))
	}
	return all
}
