package memory

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var _ store.Recorder = (*engine)(nil)

// records are the records of all names, and lapsed ones that have not
// been removed yet. Their memory is reclaimed as that of leases is.
type records struct {
	byName  map[string]record
	sweepAt int // size at which lapsed ones are removed
}

// record is a name's record, or only a term in which nothing has been written.
type record struct {
	term  int64 // the highest token that has prepared
	fence int64 // the token of its writer; 0 if it was not written
	seq   int64
	data  string
	until time.Time
}

// Prepare begins terms: see [store.Recorder]. A TTL below 1 ms is answered with
// [renewer.ErrConfig].
func (s *engine) Prepare(ctx context.Context, terms []store.Term) []store.Seen {
	return s.see(ctx, len(terms), func(i int, now time.Time) store.Seen {
		return s.records.prepare(&terms[i], now)
	})
}

// Read reads records: see [store.Recorder].
func (s *engine) Read(ctx context.Context, names []string) []store.Seen {
	return s.see(ctx, len(names), func(i int, now time.Time) store.Seen {
		old, _ := s.records.live(names[i], now)
		return old.seen(now)
	})
}

// see answers n questions under the lock, unless ctx has ended.
func (s *engine) see(
	ctx context.Context, n int, one func(i int, now time.Time) store.Seen,
) []store.Seen {
	seen := make([]store.Seen, n)
	if err := ctx.Err(); err != nil {
		for i := range seen {
			seen[i].Err = err
		}
		return seen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range seen {
		seen[i] = one(i, now)
	}
	return seen
}

// Write replaces records: see [store.Recorder]. It answers a TTL below 1 ms by
// [renewer.ErrConfig].
func (s *engine) Write(ctx context.Context, writes []store.Record) []store.Answer {
	answers := make([]store.Answer, len(writes))
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

func (r *records) prepare(t *store.Term, now time.Time) store.Seen {
	if _, err := store.Millis(t.TTL); err != nil {
		return store.Seen{Err: err}
	}
	n, ok := r.live(t.Name, now)
	if n.term > t.Fence {
		return store.Seen{Status: store.StatusTaken}
	}
	n.term = t.Fence
	if !ok {
		n.until = now.Add(t.TTL)
	}
	if t.Data != "" && n.fence < t.Fence && n.fence == t.After.Fence && n.seq == t.After.Seq {
		n.fence, n.seq, n.data, n.until = t.Fence, 1, t.Data, now.Add(t.TTL)
	}
	r.put(t.Name, n, now)
	return n.seen(now)
}

// seen is what is shown of a record that lives.
func (n record) seen(now time.Time) store.Seen {
	seen := store.Seen{
		Status: store.StatusHeld, Fence: n.fence, Seq: n.seq, Data: n.data, Now: now,
	}
	if n.fence != 0 {
		seen.TTL = n.until.Sub(now)
	}
	return seen
}

func (r *records) write(w *store.Record, now time.Time) store.Answer {
	if _, err := store.Millis(w.TTL); err != nil && !w.Erase {
		return store.Answer{Err: err}
	}
	switch old, _ := r.live(w.Name, now); {
	case old.term > w.Fence:
		return store.Answer{Status: store.StatusTaken}
	case old.term < w.Fence:
		return store.Answer{Status: store.StatusGone}
	case old.fence == w.Fence &&
		(old.seq > w.Seq || old.seq == w.Seq && (w.Erase || old.data != w.Data)):
		return store.Answer{Status: store.StatusBehind}
	case w.Erase:
		delete(r.byName, w.Name)
		return store.Answer{Status: store.StatusHeld}
	}
	r.put(w.Name, record{
		term: w.Fence, fence: w.Fence, seq: w.Seq, data: w.Data,
		until: now.Add(w.TTL),
	}, now)
	return store.Answer{Status: store.StatusHeld}
}

// live returns the record of name, or the zero value if there is none or it has
// lapsed.
func (r *records) live(name string, now time.Time) (record, bool) {
	if old, ok := r.byName[name]; ok && now.Before(old.until) {
		return old, true
	}
	return record{}, false
}

// put stores a record, and now and then removes those that have lapsed.
func (r *records) put(name string, n record, now time.Time) {
	if r.byName == nil {
		r.byName = make(map[string]record)
	}
	sweep(r.byName, &r.sweepAt, func(_ string, n record) bool { return !now.Before(n.until) })
	r.byName[name] = n
}
