package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/codes"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// claim compares what was recorded with what was promised, and sends it to where the environment
// says.
func claim(
	ctx context.Context, d *demo.Demo, nodes []*node, roots []*span, metrics map[string]float64,
) error {
	export := find(roots, "job export", "lockbeat.hold")
	for _, c := range []struct{ request, what string }{
		{"POST /transfer", "who waited has a link to the hold of the other process"},
		{"POST /withdraw", "who was refused has one too, and no error"},
	} {
		acquire := find(roots, c.request, "lockbeat.acquire")
		linked := acquire != nil && export != nil && len(acquire.Links()) == 1 &&
			acquire.Links()[0].SpanContext.SpanID() == export.SpanContext().SpanID() &&
			acquire.Status().Code != codes.Error
		d.Claim(c.what, linked, "%v", acquire)
	}
	hold := find(roots, "POST /report", "lockbeat.hold")
	d.Claim("the loss is an error of the hold", hold != nil && hold.Status().Code == codes.Error &&
		hold.has("lockbeat.lost"), "%v", hold)
	request := find(roots, "POST /report", "POST /report")
	d.Claim("and an event of the request", request != nil && request.has("lockbeat.lost"), "%v",
		request)
	spans := 0
	for _, n := range nodes {
		for _, span := range n.spans.Ended() {
			if strings.Contains(span.Name(), "renew") {
				spans++
			}
		}
	}
	renewals := total(metrics, "lockbeat.renewals")
	d.Claim("heartbeats are counted, and make no spans", renewals > 0 && spans == 0,
		"%.0f heartbeats, %d spans", renewals, spans)
	held, waiting := total(metrics, "lockbeat.held"), total(metrics, "lockbeat.waiting")
	d.Claim("locks held and callers waiting in the end", held == 0 && waiting == 0,
		"%.0f and %.0f", held, waiting)

	if to := os.Getenv(endpoint); to != "" {
		var faults error
		for _, n := range nodes {
			faults = errors.Join(faults, n.flush(ctx))
		}
		d.Claim("sent to "+to, faults == nil, "%v", faults)
	}
	return nil
}

// find is the span of a name within the trace whose root has another.
func find(spans []*span, root, name string) *span {
	for _, s := range spans {
		if s.Name() == name {
			return s
		}
		if s.Name() == root || root == "" {
			if found := find(s.inside, "", name); found != nil {
				return found
			}
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

func (s *span) String() string {
	if s == nil {
		return "no such span"
	}
	return fmt.Sprintf("%s of %s", s.Name(), s.service)
}
