package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/codes"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

// claim compares what was recorded with what was promised.
func claim(ctx context.Context, s *stage.Stage, nodes []*node, roots []*span) error {
	export := find(roots, "job export", "lockbeat.hold")
	for _, c := range []struct{ request, what string }{
		{"POST /transfer", "who waited has a link to the hold of the other process"},
		{"POST /withdraw", "who was refused has one too, and no error"},
	} {
		acquire := find(roots, c.request, "lockbeat.acquire")
		held := acquire != nil && export != nil && len(acquire.Links()) == 1 &&
			acquire.Links()[0].SpanContext.SpanID() == export.SpanContext().SpanID() &&
			acquire.Status().Code != codes.Error
		s.Claim(c.what, nameOf(acquire), held)
	}
	hold, request := find(roots, "POST /report", "lockbeat.hold"), find(roots, "POST /report",
		"POST /report")
	s.Claim("the loss is an error of the hold", nameOf(hold), hold != nil &&
		hold.Status().Code == codes.Error && hold.has("lockbeat.lost"))
	s.Claim("and an event of the request", nameOf(request), request != nil &&
		request.has("lockbeat.lost"))

	heartbeats := 0
	var held, waiting, renewals float64
	for _, n := range nodes {
		for _, span := range n.spans.Ended() {
			if strings.Contains(span.Name(), "renew") {
				heartbeats++
			}
		}
		values, err := n.read(ctx)
		if err != nil {
			return err
		}
		for name, value := range values {
			switch {
			case strings.HasPrefix(name, "lockbeat.held"):
				held += value
			case strings.HasPrefix(name, "lockbeat.waiting"):
				waiting += value
			case strings.HasPrefix(name, "lockbeat.renewals"):
				renewals += value
			}
		}
	}
	s.Claim("heartbeats are counted, and make no spans",
		fmt.Sprintf("%.0f heartbeats, %d spans", renewals, heartbeats), renewals > 0 &&
			heartbeats == 0)
	s.Claim("locks held and callers waiting in the end",
		fmt.Sprintf("%.0f and %.0f", held, waiting), held == 0 && waiting == 0)
	return send(ctx, s, nodes)
}

// send sends what there is to where the environment says.
func send(ctx context.Context, s *stage.Stage, nodes []*node) error {
	to := os.Getenv(endpoint)
	if to == "" {
		return nil
	}
	for _, n := range nodes {
		if err := n.tracers.ForceFlush(ctx); err != nil {
			return fmt.Errorf("send spans to %s: %w", to, err)
		}
		if err := n.meters.ForceFlush(ctx); err != nil {
			return fmt.Errorf("send metrics to %s: %w", to, err)
		}
	}
	s.Claim("sent to", to, true)
	return nil
}

// find is the span of a name within the trace whose root has another.
func find(roots []*span, root, name string) *span {
	for _, r := range roots {
		if r.Name() == root {
			return r.find(name)
		}
	}
	return nil
}

func (s *span) find(name string) *span {
	if s.Name() == name {
		return s
	}
	for _, inner := range s.inside {
		if found := inner.find(name); found != nil {
			return found
		}
	}
	return nil
}

func (s *span) has(event string) bool {
	for _, e := range s.Events() {
		if e.Name == event {
			return true
		}
	}
	return false
}

func nameOf(s *span) string {
	if s == nil {
		return "no such span"
	}
	return fmt.Sprintf("%s of %s", s.Name(), s.service)
}
