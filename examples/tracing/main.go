// Tracing shows what OpenTelemetry gets to see of locks. Three nodes, each with
// telemetry of its own as a process has, contend for an account; one loses a
// lock, since Redis is stopped. The traces are printed as trees, with the links
// from who waited to who had the lock.
//
//	go run ./examples/tracing                          # Redis runs inside the program
//	go run ./examples/tracing -redis localhost:6379    # on your own, left as it was found
//
//	# to look at it, and at metrics, in Jaeger, Grafana or any other that speaks OTLP over HTTP:
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 go run ./examples/tracing
//
// The exit status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write. main.go plays the nodes,
// tree.go prints, and claims.go judges.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func main() { demo.Main(demo.Setting{Program: "tracing"}, tell) }

// node is a process with locks, and with telemetry of its own.
type node struct {
	*telemetry

	keeper *renewer.Keeper
}

// serve does work under a lock, in a span of the node's own, as an instrumented
// server or job runner makes one.
func (n *node) serve(
	ctx context.Context, span, name string, do func(context.Context), opts ...lockmw.Option,
) error {
	ctx, own := n.tracer.Start(ctx, span)
	defer own.End()
	_, err := lockmw.Do(ctx, n.keeper, name, func(ctx context.Context) (struct{}, error) {
		ctx, work := n.tracer.Start(ctx, "UPDATE accounts")
		defer work.End()
		do(ctx)
		return struct{}{}, ctx.Err()
	}, opts...)
	if err != nil && !errors.Is(err, renewer.ErrBusy) {
		own.SetStatus(codes.Error, "failed")
	}
	return err
}

// tell is the story.
func tell(ctx context.Context, d *demo.Demo) error {
	d.Print("Three nodes, each a process of its own to OpenTelemetry, share the locks of a bank. "+
		"Redis: %s.", d.Where())
	nodes := make([]*node, 3)
	for i, name := range []string{"web-1", "web-2", "worker"} {
		t, err := newTelemetry(ctx, name)
		if err != nil {
			return err
		}
		d.AtEnd(t.close)
		k, err := d.Keeper(name, t.observer)
		if err != nil {
			return err
		}
		nodes[i] = &node{t, k}
	}
	if err := contend(ctx, d, nodes[0], nodes[1], nodes[2]); err != nil {
		return err
	}
	if err := lose(ctx, d, nodes[1]); err != nil {
		return err
	}
	for _, n := range nodes { // the span of an answered request may not have ended yet
		if err := n.keeper.Shutdown(ctx); err != nil {
			return err
		}
	}
	d.Title("What OpenTelemetry got to see")
	roots := collect(nodes)
	for _, r := range roots {
		d.Print("\n  trace %.8s", r.SpanContext().TraceID())
		r.show(d, r.StartTime(), "  ", "")
	}
	claim(d, nodes, roots)
	return nil
}

// contend has the worker hold the lock that one request waits for, and another
// won't wait for.
func contend(ctx context.Context, d *demo.Demo, waiting, refused, holder *node) error {
	d.Title("1. A job of the worker has the lock on account 7. A request to web-1 waits for it, " +
		"one to web-2 is refused.")
	began, finish := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	var faults [3]error
	all.Go(func() {
		faults[0] = holder.serve(ctx, "job export", "account:7", func(ctx context.Context) {
			close(began)
			_, _ = demo.Wait(ctx, finish)
		}, lockmw.Operation("export"))
	})
	if _, err := demo.Wait(ctx, began); err != nil {
		return fmt.Errorf("the worker did not get the lock: %w", err)
	}
	faults[1] = refused.serve(ctx, "POST /withdraw", "account:7", func(context.Context) {},
		lockmw.Refuse(), lockmw.Operation("withdraw"))
	if errors.Is(faults[1], renewer.ErrBusy) {
		faults[1] = nil
	}
	returned := make(chan struct{})
	all.Go(func() {
		defer close(returned)
		faults[2] = waiting.serve(ctx, "POST /transfer", "account:7", func(context.Context) {},
			lockmw.Wait(10*time.Second), lockmw.Operation("transfer"))
	})
	inLine(ctx, d, "account:7", returned)
	close(finish)
	all.Wait()
	return errors.Join(faults[:]...)
}

// inLine waits until a caller stands in line for a lock, or has returned.
func inLine(ctx context.Context, d *demo.Demo, lock string, returned <-chan struct{}) {
	redis := d.Servers[0].Direct
	line := d.Prefix("") + "{" + lock + "}:waiters"
	for {
		if n, err := redis.Do(ctx, redis.B().Exists().Key(line).Build()).AsInt64(); err != nil ||
			n > 0 {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-returned:
			return
		}
	}
}

// lose has a node lose a lock, since Redis is not there to renew it.
func lose(ctx context.Context, d *demo.Demo, n *node) error {
	d.Title("2. While a request to web-2 is being served, Redis is stopped.")
	err := n.serve(ctx, "POST /report", "report:2026", func(ctx context.Context) {
		d.Stop(1)
		_, _ = demo.Wait(ctx, time.After(10*time.Second)) // the context ends first
	}, lockmw.Operation("report"))
	d.Resume()
	if !errors.Is(err, renewer.ErrLost) {
		//nolint:errorlint // there may be none
		return fmt.Errorf("its lock should have been lost, but it got: %v", err)
	}
	return nil
}
