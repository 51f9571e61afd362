package script

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

var _ renewer.Recorder = (*Store)(nil)

// Prepare answers by the script: see [renewer.Recorder]. Of the fixed answers, [Taken] is
// believed: a later holder has prepared.
func (s *Store) Prepare(ctx context.Context, terms []renewer.Term) []renewer.Seen {
	terms = slices.Clone(terms)
	return perform(ctx, s, Call{Op: Prepare, Terms: terms}, len(terms), unseen,
		func(i int, a answer, now time.Time) renewer.Seen {
			return s.records.prepare(terms[i], a, now)
		}, func() {})
}

// Read answers by the script: see [renewer.Recorder].
func (s *Store) Read(ctx context.Context, names []string) []renewer.Seen {
	names = slices.Clone(names)
	return perform(ctx, s, Call{Op: Read, Names: names}, len(names), unseen,
		func(i int, a answer, now time.Time) renewer.Seen {
			return s.records.entry(names[i], now).answer(a, now)
		}, func() {})
}

func unseen(err error) renewer.Seen { return renewer.Seen{Err: err} }

// Write answers by the script: see [renewer.Recorder]. Of the fixed answers, [Taken]
// and [Gone] are believed: a later holder has prepared, or the record has lapsed.
func (s *Store) Write(ctx context.Context, writes []renewer.Record) []renewer.Answer {
	writes = slices.Clone(writes)
	return perform(ctx, s, Call{Op: Write, Records: writes}, len(writes),
		func(err error) renewer.Answer {
			return renewer.Answer{Err: err}
		},
		func(i int, a answer, now time.Time) renewer.Answer {
			return s.records.write(writes[i], a, now)
		}, func() {})
}

// records are those of the store in memory behind the script.
type records map[string]*entry

type entry struct {
	term int64 // the highest token that has prepared
	seen renewer.Seen
	ends time.Time
}

// entry returns that of name, cleared if it has lapsed.
func (r records) entry(name string, now time.Time) *entry {
	e := r[name]
	if e == nil || !now.Before(e.ends) {
		e = &entry{seen: renewer.Seen{Status: renewer.StatusHeld}}
		r[name] = e
	}
	return e
}

func (r records) prepare(t renewer.Term, a answer, now time.Time) renewer.Seen {
	e := r.entry(t.Name, now)
	if a.fixed && a.grant.Status == renewer.StatusTaken {
		e.supersede(t.Fence, t.TTL, now)
	} else if a.fixed && a.grant.Status != renewer.StatusHeld {
		return e.answer(a, now)
	}
	if e.term > t.Fence {
		return renewer.Seen{Status: renewer.StatusTaken}
	}
	e.term = t.Fence
	if e.ends.IsZero() {
		e.ends = now.Add(t.TTL)
	}
	if seen := e.seen; t.Data != "" && seen.Fence < t.Fence && seen.Fence == t.After.Fence &&
		seen.Seq == t.After.Seq {
		e.seen = renewer.Seen{
			Status: renewer.StatusHeld, Fence: t.Fence, Seq: 1, Data: t.Data,
		}
		e.ends = now.Add(t.TTL)
	}
	return e.answer(a, now)
}

// answer is what is shown of a record, or the fixed answer.
func (e *entry) answer(a answer, now time.Time) renewer.Seen {
	if a.fixed && a.grant.Status != renewer.StatusHeld {
		return renewer.Seen{Status: a.grant.Status, Err: a.grant.Err}
	}
	if a.lose != nil {
		return renewer.Seen{Err: a.lose}
	}
	seen := e.seen
	seen.Now = now
	if seen.Fence != 0 {
		seen.TTL = e.ends.Sub(now)
	}
	return seen
}

func (r records) write(w renewer.Record, a answer, now time.Time) renewer.Answer {
	e := r.entry(w.Name, now)
	if a.fixed {
		switch a.grant.Status {
		case renewer.StatusTaken:
			e.supersede(w.Fence, w.TTL, now)
		case renewer.StatusGone:
			delete(r, w.Name)
			return renewer.Answer{Status: renewer.StatusGone}
		case renewer.StatusUnknown, renewer.StatusBehind:
			return renewer.Answer{Status: a.grant.Status, Err: a.grant.Err}
		case renewer.StatusHeld:
		}
	}
	status := renewer.StatusHeld
	switch seen := e.seen; {
	case e.term > w.Fence:
		status = renewer.StatusTaken
	case e.term < w.Fence:
		status = renewer.StatusGone
	case seen.Fence == w.Fence &&
		(seen.Seq > w.Seq || seen.Seq == w.Seq && (w.Erase || seen.Data != w.Data)):
		status = renewer.StatusBehind
	case w.Erase:
		delete(r, w.Name)
	default:
		e.seen = renewer.Seen{Status: renewer.StatusHeld, Fence: w.Fence, Seq: w.Seq, Data: w.Data}
		e.ends = now.Add(w.TTL)
	}
	if a.lose != nil {
		return renewer.Answer{Err: a.lose}
	}
	return renewer.Answer{Status: status}
}

// supersede lets a later holder have prepared.
func (e *entry) supersede(fence int64, ttl time.Duration, now time.Time) {
	e.term = max(e.term, fence+1)
	if e.ends.IsZero() {
		e.ends = now.Add(ttl)
	}
}

// PutRecord writes the record of name for a minute, as if an outsider
// had: a holder whose token is 1.
func (s *Store) PutRecord(name, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = &entry{
		term: 1,
		seen: renewer.Seen{
			Status: renewer.StatusHeld, Fence: 1, Seq: 1,
			Data: data,
		}, ends: time.Now().Add(time.Minute),
	}
}

// RecordOf returns the record of name, "" if there is none.
func (s *Store) RecordOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records.entry(name, time.Now()).seen.Data
}
