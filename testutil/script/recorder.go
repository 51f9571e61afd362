package script

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var _ store.Recorder = (*Store)(nil)

// Prepare answers by the script: see [store.Recorder]. Of the fixed answers,
// [Taken] is believed: a later holder has prepared.
func (s *Store) Prepare(ctx context.Context, terms []store.Term) []store.Seen {
	terms = slices.Clone(terms)
	return perform(ctx, s, Call{Op: Prepare, Terms: terms}, len(terms), unseen,
		func(i int, a answer, now time.Time) store.Seen {
			return s.records.prepare(terms[i], a, now)
		}, func() {})
}

// Read answers by the script: see [store.Recorder].
func (s *Store) Read(ctx context.Context, names []string) []store.Seen {
	names = slices.Clone(names)
	return perform(ctx, s, Call{Op: Read, Names: names}, len(names), unseen,
		func(i int, a answer, now time.Time) store.Seen {
			return s.records.entry(names[i], now).answer(a, now)
		}, func() {})
}

func unseen(err error) store.Seen { return store.Seen{Err: err} }

// Write answers by the script: see [store.Recorder]. Of the fixed answers,
// [Taken] and [Gone] are believed: a later holder has prepared, or the record
// has lapsed.
func (s *Store) Write(ctx context.Context, writes []store.Record) []store.Answer {
	writes = slices.Clone(writes)
	return perform(ctx, s, Call{Op: Write, Records: writes}, len(writes),
		func(err error) store.Answer {
			return store.Answer{Err: err}
		},
		func(i int, a answer, now time.Time) store.Answer {
			return s.records.write(writes[i], a, now)
		}, func() {})
}

// records are those of the store in memory behind the script.
type records map[string]*entry

type entry struct {
	term int64 // the highest token that has prepared
	seen store.Seen
	ends time.Time
}

// entry returns that of name, cleared if it has lapsed.
func (r records) entry(name string, now time.Time) *entry {
	e := r[name]
	if e == nil || !now.Before(e.ends) {
		e = &entry{seen: store.Seen{Status: store.StatusHeld}}
		r[name] = e
	}
	return e
}

func (r records) prepare(t store.Term, a answer, now time.Time) store.Seen {
	e := r.entry(t.Name, now)
	if a.fixed && a.grant.Status == store.StatusTaken {
		e.supersede(t.Fence, t.TTL, now)
	} else if a.fixed && a.grant.Status != store.StatusHeld {
		return e.answer(a, now)
	}
	if e.term > t.Fence {
		return store.Seen{Status: store.StatusTaken}
	}
	e.term = t.Fence
	if e.ends.IsZero() {
		e.ends = now.Add(t.TTL)
	}
	if seen := e.seen; t.Data != "" && seen.Fence < t.Fence && seen.Fence == t.After.Fence &&
		seen.Seq == t.After.Seq {
		e.seen = store.Seen{
			Status: store.StatusHeld, Fence: t.Fence, Seq: 1, Data: t.Data,
		}
		e.ends = now.Add(t.TTL)
	}
	return e.answer(a, now)
}

// answer is what is shown of a record, or the fixed answer.
func (e *entry) answer(a answer, now time.Time) store.Seen {
	if a.fixed && a.grant.Status != store.StatusHeld {
		return store.Seen{Status: a.grant.Status, Err: a.grant.Err}
	}
	if a.lose != nil {
		return store.Seen{Err: a.lose}
	}
	seen := e.seen
	seen.Now = now
	if seen.Fence != 0 {
		seen.TTL = e.ends.Sub(now)
	}
	return seen
}

func (r records) write(w store.Record, a answer, now time.Time) store.Answer {
	e := r.entry(w.Name, now)
	if a.fixed {
		switch a.grant.Status {
		case store.StatusTaken:
			e.supersede(w.Fence, w.TTL, now)
		case store.StatusGone:
			delete(r, w.Name)
			return store.Answer{Status: store.StatusGone}
		case store.StatusUnknown, store.StatusBehind, store.StatusBroken:
			return store.Answer{Status: a.grant.Status, Err: a.grant.Err}
		case store.StatusHeld:
		}
	}
	status := store.StatusHeld
	switch seen := e.seen; {
	case e.term > w.Fence:
		status = store.StatusTaken
	case e.term < w.Fence:
		status = store.StatusGone
	case seen.Fence == w.Fence &&
		(seen.Seq > w.Seq || seen.Seq == w.Seq && (w.Erase || seen.Data != w.Data)):
		status = store.StatusBehind
	case w.Erase:
		delete(r, w.Name)
	default:
		e.seen = store.Seen{Status: store.StatusHeld, Fence: w.Fence, Seq: w.Seq, Data: w.Data}
		e.ends = now.Add(w.TTL)
	}
	if a.lose != nil {
		return store.Answer{Err: a.lose}
	}
	return store.Answer{Status: status}
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
		seen: store.Seen{
			Status: store.StatusHeld, Fence: 1, Seq: 1,
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
