package main

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// claim compares what was recorded with what was promised.
func claim(d *demo.Demo, nodes []*node, roots []*span) {
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
	renewals := 0
	for _, n := range nodes {
		for _, span := range n.spans.Ended() {
			if strings.Contains(span.Name(), "renew") {
				renewals++
			}
		}
	}
	d.Claim("heartbeats make no spans", renewals == 0, "%d spans", renewals)
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
	return slices.ContainsFunc(s.Events(), func(e sdktrace.Event) bool { return e.Name == event })
}

func (s *span) String() string {
	if s == nil {
		return "no such span"
	}
	return fmt.Sprintf("%s of %s", s.Name(), s.service)
}
