package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// patience bounds what happens in a moment.
const patience = 10 * time.Second

// node is a process with locks, and with telemetry of its own.
type node struct {
	*telemetry

	keeper *renewer.Keeper
}

func open(ctx context.Context, s *stage.Stage, name string) (*node, error) {
	t, err := newTelemetry(ctx, name)
	if err != nil {
		return nil, err
	}
	s.AtEnd(t.close)
	k, err := s.Observed(name, t.observer)
	if err != nil {
		return nil, err
	}
	return &node{telemetry: t, keeper: k}, nil
}

// serve does work under a lock, in a span of the node's own, as an
// instrumented server or job runner makes one.
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
	if err != nil && !errors.Is(err, renewer.ErrHeld) {
		own.SetStatus(codes.Error, "failed")
	}
	return err
}

// tell tells the story.
func tell(ctx context.Context, s *stage.Stage) error {
	s.Print("Three nodes, each a process of its own to OpenTelemetry, share the locks of a bank. "+
		"Redis: %s", s.Where())
	nodes := make([]*node, 3)
	for i, name := range []string{"web-1", "web-2", "worker"} {
		var err error
		if nodes[i], err = open(ctx, s, name); err != nil {
			return err
		}
	}
	if err := contend(ctx, s, nodes[0], nodes[1], nodes[2]); err != nil {
		return err
	}
	if err := lose(ctx, s, nodes[1]); err != nil {
		return err
	}
	for _, n := range nodes { // a request may have been answered whose end has not been counted yet
		if err := n.keeper.Shutdown(ctx); err != nil {
			return err
		}
	}
	traces := collect(nodes)
	s.Title("What OpenTelemetry got to see")
	for _, t := range traces {
		t.print(s)
	}
	s.Title("And in figures")
	if err := printMetrics(ctx, s, nodes); err != nil {
		return err
	}
	return claim(ctx, s, nodes, traces)
}

// contend has the worker hold the lock that one request waits for, and another won't wait for.
func contend(ctx context.Context, s *stage.Stage, waiting, refused, holder *node) error {
	s.Title("1. A job of the worker has the lock on account 7. A request to web-1 waits for it, " +
		"one to web-2 is refused.")
	began, finish := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var faults [2]error
	wg.Go(func() {
		faults[0] = holder.serve(ctx, "job export", "account:7", func(ctx context.Context) {
			close(began)
			pass(ctx, finish)
		}, lockmw.Operation("export"))
	})
	if !await(ctx, began) {
		return fmt.Errorf("the worker did not get the lock: %w", context.Cause(ctx))
	}
	err := refused.serve(ctx, "POST /withdraw", "account:7", func(context.Context) {},
		lockmw.Refuse(), lockmw.Operation("withdraw"))
	if err != nil && !errors.Is(err, renewer.ErrHeld) {
		close(finish)
		wg.Wait()
		return err
	}
	wg.Go(func() {
		faults[1] = waiting.serve(ctx, "POST /transfer", "account:7", func(context.Context) {},
			lockmw.Wait(patience), lockmw.Operation("transfer"))
	})
	pass(ctx, after(200*time.Millisecond))
	close(finish)
	wg.Wait()
	return errors.Join(faults[:]...)
}

// lose has a node lose a lock, since Redis is not there to renew it.
func lose(ctx context.Context, s *stage.Stage, n *node) error {
	s.Title("2. While a request to web-2 is being served, Redis is stopped.")
	err := n.serve(ctx, "POST /report", "report:2026", func(ctx context.Context) {
		s.Stop()
		pass(ctx, after(patience)) // the context ends first
	}, lockmw.Operation("report"))
	s.Resume()
	if !errors.Is(err, renewer.ErrLost) {
		//nolint:errorlint // there may be none
		return fmt.Errorf("its lock should have been lost, but it got: %v", err)
	}
	return nil
}

func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// pass waits for c, or for the end of ctx.
func pass(ctx context.Context, c <-chan struct{}) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// await is pass, and tells which it was.
func await(ctx context.Context, c <-chan struct{}) bool {
	pass(ctx, c)
	return ctx.Err() == nil
}
