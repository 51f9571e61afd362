package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// span is one of a node's.
type span struct {
	sdktrace.ReadOnlySpan

	service string
	inside  []*span
	all     map[trace.SpanID]*span // of all nodes, to find what a link leads to
}

// collect makes trees of what all nodes have recorded, and returns
// their roots in the order in which they began.
func collect(nodes []*node) (roots []*span) {
	all := make(map[trace.SpanID]*span)
	for _, n := range nodes {
		for _, s := range n.spans.Ended() {
			all[s.SpanContext().SpanID()] = &span{ReadOnlySpan: s, service: n.service, all: all}
		}
	}
	for _, s := range all {
		if parent := all[s.Parent().SpanID()]; parent != nil {
			parent.inside = append(parent.inside, s)
		} else {
			roots = append(roots, s)
		}
	}
	for _, s := range all {
		slices.SortFunc(s.inside, began)
	}
	slices.SortFunc(roots, began)
	return roots
}

func began(a, b *span) int {
	return cmp.Or(a.StartTime().Compare(b.StartTime()), a.EndTime().Compare(b.EndTime()))
}

func (s *span) show(out *demo.Demo, start time.Time, indent, branch string) {
	head := fmt.Sprintf("%s%s%s  [%s]", indent, branch, s.Name(), s.service)
	times := fmt.Sprintf("+%s, took %s", demo.Span(s.StartTime().Sub(start)),
		demo.Span(s.EndTime().Sub(s.StartTime())))
	remark := text(s.Attributes(), "lockbeat.outcome")
	if s.Status().Description != "" {
		remark += "  ERROR: " + s.Status().Description
	}
	out.Print("%-62s %-30s %s", head, times, remark)
	indent += map[string]string{"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
	for _, note := range s.notes(start) {
		out.Print("%s     %s", indent, note)
	}
	for i, inner := range s.inside {
		branch := "├─ "
		if i == len(s.inside)-1 {
			branch = "└─ "
		}
		inner.show(out, start, indent, branch)
	}
}

// notes are the lines below: events, and who was waited for.
func (s *span) notes(start time.Time) (notes []string) {
	events := s.Events()
	for i := 0; i < len(events); i++ {
		e, first := events[i], i
		for i+1 < len(events) && events[i+1].Name == e.Name {
			i++ // they come in crowds
		}
		note := fmt.Sprintf("• %s at +%s", e.Name, demo.Span(e.Time.Sub(start)))
		if i > first {
			note += fmt.Sprintf(" and so on to +%s, %d times", demo.Span(events[i].Time.Sub(start)),
				i-first+1)
		}
		for _, key := range []attribute.Key{"lockbeat.reason", "error.type"} {
			if value := text(e.Attributes, key); value != "" {
				note = fmt.Sprintf("%s, %s %s", note, key, value)
			}
		}
		notes = append(notes, note)
	}
	for _, link := range s.Links() {
		to := link.SpanContext
		notes = append(notes, fmt.Sprintf("→ link to span %.8s of trace %.8s: %v, %s s old by then",
			to.SpanID(), to.TraceID(), s.all[to.SpanID()],
			text(s.Attributes(), "lockbeat.holder.held_for")))
	}
	return notes
}

// text is the value of an attribute.
func text(attributes []attribute.KeyValue, key attribute.Key) string {
	for _, kv := range attributes {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}
