package memory

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

var _ renewer.Recorder = (*Store)(nil)

// records are the records of all names, and lapsed ones that have not
// been removed yet. Their memory is reclaimed as that of leases is.
type records struct {
	byName  map[string]record
	sweepAt int // size at which lapsed ones are removed
}

// record is a name's record, or only a term in which nothing has been written.
type record struct {
	term  int64 // the highest token that has looked
	fence int64 // the token of its writer; 0 if it was not written
	seq   int64
	data  string
	until time.Time
}

// Look reads records: see [renewer.Recorder]. It answers a TTL below 1 ms of a look with a token by
// [renewer.ErrConfig].
func (s *Store) Look(ctx context.Context, looks []renewer.Look) []renewer.Seen {
	seen := make([]renewer.Seen, len(looks))
	if err := ctx.Err(); err != nil {
		for i := range seen {
			seen[i].Err = err
		}
		return seen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range looks {
		seen[i] = s.records.look(&looks[i], now)
	}
	return seen
}

// Write replaces records: see [renewer.Recorder]. It answers a TTL below 1 ms by
// [renewer.ErrConfig].
func (s *Store) Write(ctx context.Context, writes []renewer.Record) []renewer.Answer {
	answers := make([]renewer.Answer, len(writes))
	if err := ctx.Err(); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range writes {
		answers[i] = s.records.write(&writes[i], now)
	}
	return answers
}

func (r *records) look(l *renewer.Look, now time.Time) renewer.Seen {
	old, ok := r.live(l.Name, now)
	if l.Fence != 0 {
		if _, err := renewer.Millis(l.TTL); err != nil {
			return renewer.Seen{Err: err}
		}
		if old.term > l.Fence {
			return renewer.Seen{Status: renewer.StatusTaken}
		}
		old.term = l.Fence
		if !ok {
			old.until = now.Add(l.TTL)
		}
		r.put(l.Name, old, now)
	}
	seen := renewer.Seen{Status: renewer.StatusHeld, Fence: old.fence, Seq: old.seq, Data: old.data}
	if old.fence != 0 {
		seen.TTL = old.until.Sub(now)
	}
	return seen
}

func (r *records) write(w *renewer.Record, now time.Time) renewer.Answer {
	if _, err := renewer.Millis(w.TTL); err != nil && !w.Erase {
		return renewer.Answer{Err: err}
	}
	switch old, _ := r.live(w.Name, now); {
	case old.term > w.Fence:
		return renewer.Answer{Status: renewer.StatusTaken}
	case old.term < w.Fence:
		return renewer.Answer{Status: renewer.StatusGone}
	case old.fence == w.Fence &&
		(old.seq > w.Seq || old.seq == w.Seq && (w.Erase || old.data != w.Data)):
		return renewer.Answer{Status: renewer.StatusBehind}
	case w.Erase:
		delete(r.byName, w.Name)
		return renewer.Answer{Status: renewer.StatusHeld}
	}
	r.put(w.Name, record{
		term: w.Fence, fence: w.Fence, seq: w.Seq, data: w.Data,
		until: now.Add(w.TTL),
	}, now)
	return renewer.Answer{Status: renewer.StatusHeld}
}

// live returns the record of name, or the zero value if there is none or it has lapsed.
func (r *records) live(name string, now time.Time) (record, bool) {
	if old, ok := r.byName[name]; ok && now.Before(old.until) {
		return old, true
	}
	return record{}, false
}

// put stores a record, and now and then removes those that have lapsed: see [Store.put].
func (r *records) put(name string, n record, now time.Time) {
	if r.byName == nil {
		r.byName = make(map[string]record)
	}
	if len(r.byName) >= max(r.sweepAt, minSweep) {
		for old, n := range r.byName {
			if !now.Before(n.until) {
				delete(r.byName, old)
			}
		}
		r.sweepAt = 2 * len(r.byName)
	}
	r.byName[name] = n
}
