package history_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms      = int64(time.Millisecond)
	margin  = 100 * time.Millisecond
	request = 100 * time.Millisecond
)

// script writes what a process tells, in ms.
type script struct {
	name   string
	events []history.Event
	op     int64
}

func process(name string) *script { return &script{name: name} }

// got is a grant of the store to an owner, and the lease that stands
// on it: asked for, had, and good until three instants.
func (s *script) got(owner, name string, fence, asked, had, until int64) int64 {
	s.events = append(s.events, history.Event{
		Kind: history.Granted, At: asked * ms, Name: name, Owner: owner, Fence: fence,
		Top: fence + 2, Until: until * ms,
	})
	return s.handed(name, fence, asked, had)
}

// handed is a lease that the process passed on to itself.
func (s *script) handed(name string, fence, asked, had int64) int64 {
	s.op++
	s.ask(s.op, name, asked, int64(time.Hour)/ms)
	s.events = append(s.events, history.Event{
		Kind: history.Got, At: had * ms, Op: s.op, Fence: fence,
	})
	return s.op
}

// ask is an acquire that may take so many ms.
func (s *script) ask(op int64, name string, at, allowed int64) {
	s.events = append(s.events,
		history.Event{Kind: history.Ask, At: at * ms, Op: op, Name: name, Until: allowed * ms})
}

func (s *script) extended(owner string, at, until int64) {
	s.events = append(s.events,
		history.Event{Kind: history.Extended, At: at * ms, Owner: owner, Until: until * ms})
}

// renewed is an extension by a request that was sent at an instant.
func (s *script) renewed(owner string, sent, at, until int64) {
	s.extended(owner, at, until)
	s.events[len(s.events)-1].Sent = sent * ms
}

func (s *script) refused(owner string, at int64) {
	s.events = append(s.events, history.Event{Kind: history.Refused, At: at * ms, Owner: owner})
}

func (s *script) broke(name string, fence, at int64) {
	s.events = append(s.events,
		history.Event{Kind: history.Broke, At: at * ms, Name: name, Fence: fence})
}

func (s *script) replaced(name string, sent, at int64) {
	s.events = append(s.events,
		history.Event{Kind: history.Replaced, At: at * ms, Sent: sent * ms, Name: name})
}

func (s *script) freed(op, freeing, freed int64) {
	s.at(op, history.Freeing, freeing)
	s.at(op, history.Freed, freed)
}

func (s *script) at(op int64, kind history.Kind, at int64) {
	s.events = append(s.events, history.Event{Kind: kind, At: at * ms, Op: op})
}

func (s *script) paused(from, to int64) {
	s.events = append(s.events, history.Event{Kind: history.Paused, At: from * ms, Until: to * ms})
}

func (s *script) killed(at int64) {
	s.events = append(s.events, history.Event{Kind: history.Killed, At: at * ms})
}

func told(scripts ...*script) []*history.Process {
	var all []*history.Process
	for _, s := range scripts {
		p := history.NewProcess(s.name)
		for _, e := range s.events {
			p.Take(e)
		}
		all = append(all, p)
	}
	return all
}

// void is a run in which a fault voided exclusion.
func void(from, to int64) history.Run {
	return history.Run{Excused: []history.Window{{From: from * ms, To: to * ms, What: "FLUSHALL"}}}
}

// limitOf2 is a run in which two may have x at once.
var limitOf2 = history.Run{Limits: map[string]int{"x": 2}}

// limitOf2Void is limitOf2, and void.
func limitOf2Void(from, to int64) history.Run {
	run := void(from, to)
	run.Limits = limitOf2.Limits
	return run
}

func rulesOf(r history.Report) string {
	var rules []string
	for _, v := range r.Violations {
		rules = append(rules, v.Rule)
	}
	return strings.Join(rules, ", ")
}
