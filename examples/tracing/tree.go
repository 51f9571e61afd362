package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
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
	return cmp.Or(a.StartTime().Compare(b.StartTime()), a.EndTime().Compare(b.EndTime()),
		cmp.Compare(a.Name(), b.Name()))
}

// print shows a trace.
func (s *span) print(out *stage.Stage) {
	out.Print("")
	out.Print("  trace %s", short(s.SpanContext().TraceID().String()))
	s.show(out, s.StartTime(), "  ", "")
}

func (s *span) show(out *stage.Stage, start time.Time, indent, branch string) {
	head := fmt.Sprintf("%s%s%s  [%s]", indent, branch, s.Name(), s.service)
	times := fmt.Sprintf("+%s, took %s", stage.Span(s.StartTime().Sub(start)),
		stage.Span(s.EndTime().Sub(s.StartTime())))
	out.Print("%-62s %-30s %s", head, times, s.remarks())
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

// remarks are what is worth a word on a span's own line.
func (s *span) remarks() string {
	var words []string
	if outcome, ok := s.attribute("lockbeat.outcome"); ok {
		words = append(words, outcome.AsString())
	}
	if s.Status().Description != "" {
		words = append(words, "ERROR: "+s.Status().Description)
	}
	return strings.Join(words, "  ")
}

// notes are the lines below: events, and who was waited for.
func (s *span) notes(start time.Time) (notes []string) {
	events := s.Events()
	for i := 0; i < len(events); i++ {
		e, first := events[i], i
		for i+1 < len(events) && events[i+1].Name == e.Name {
			i++ // they come in crowds
		}
		note := fmt.Sprintf("• %s at +%s", e.Name, stage.Span(e.Time.Sub(start)))
		if i > first {
			note = fmt.Sprintf("• %s %d times, from +%s to +%s", e.Name, i-first+1,
				stage.Span(e.Time.Sub(start)), stage.Span(events[i].Time.Sub(start)))
		}
		for _, kv := range e.Attributes {
			if kv.Key == "lockbeat.reason" || kv.Key == "error.type" {
				note += fmt.Sprintf(", %s %s", kv.Key, kv.Value.AsString())
			}
		}
		notes = append(notes, note)
	}
	for _, link := range s.Links() {
		note := fmt.Sprintf("→ link to span %s of trace %s",
			short(link.SpanContext.SpanID().String()), short(link.SpanContext.TraceID().String()))
		if to := s.all[link.SpanContext.SpanID()]; to != nil {
			note += fmt.Sprintf(": %s of %s", to.Name(), to.service)
		}
		host, _ := s.attribute("lockbeat.holder.host")
		doing, _ := s.attribute("lockbeat.holder.operation")
		heldFor, _ := s.attribute("lockbeat.holder.held_for")
		held := time.Duration(heldFor.AsFloat64() * float64(time.Second))
		notes = append(notes, note,
			fmt.Sprintf("  %s (%s) had had the lock for %s by then", host.AsString(),
				doing.AsString(), stage.Span(held)))
	}
	return notes
}

func (s *span) attribute(key attribute.Key) (attribute.Value, bool) {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return attribute.Value{}, false
}

func short(id string) string { return id[:8] + "…" }
