package page

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// never is since when a lock is held that is between two owners, and when it
// lapses: so it comes behind those that are held. Scripts have no larger whole
// number.
const never = 1<<53 - 1

// jitter is what two readings of one instant may differ by: what moves by less
// has not moved.
const jitter = 500 // milliseconds

// list is what one reading of all locks has shown.
type list struct {
	at   time.Time
	cut  bool // there are more than Config.Most
	rows map[subject]row
	next int // the ID of the next new row
	took time.Duration
	told *told
}

// row is a lock as the list shows it. All but its times is in facts, so that
// two can be compared.
type row struct {
	facts

	id   int
	hash string // see Config.hash
	// since is when the oldest slot was granted, and until when the first one
	// lapses, in Unix milliseconds by the clock of this process: those of the
	// store's servers may differ.
	since, until int64
}

type facts struct {
	subject

	label    string // the name as people read it: see visible
	odd      bool
	slots    int
	node, op string // of the slot that lapses first
	pid      int
	fences   int64 // all tokens in one number: another one means another lease
	places   int   // how many processes wait
	tasks    int
	callers  int // who wait in the holders' processes
	foreign  bool
	broken   bool
}

// waiting is how many wait for it, wherever.
func (r *row) waiting() int { return r.places + r.tasks + r.callers }

func rowOf(l store.Lock, now time.Time) row {
	r := row{facts: facts{
		subject: subject{l.Name, l.Limit}, slots: len(l.Slots),
		places: l.Waiting, tasks: l.Tasks, callers: l.Callers(), foreign: l.Foreign,
	}}
	r.label, r.odd = visible(l.Name)
	if len(l.Slots) == 0 && !l.Foreign {
		r.since, r.until = never, never
	}
	for i, s := range l.Slots {
		since, until := clock(l, s, now)
		if i == 0 {
			r.since, r.until = since, until
			r.node, r.op, r.pid = text(s.Node), text(s.Operation), s.PID
		}
		r.since, r.until = min(r.since, since), min(r.until, until)
		r.fences = r.fences*31 + s.Fence
		r.broken = r.broken || s.Broken != nil
	}
	return r
}

// clock is when a slot was granted and when it lapses, by the clock of this
// process.
func clock(l store.Lock, s store.Slot, now time.Time) (since, until int64) {
	return now.Add(-l.At.Sub(s.Since)).UnixMilli(), now.Add(s.TTL).UnixMilli()
}

// steady returns the earlier time unless the later one has really moved.
func steady(before, after int64) int64 {
	if max(before, after)-min(before, after) < jitter {
		return before
	}
	return after
}

// readList reads all locks, and what is new since the reading before.
func (p *Page) readList(ctx context.Context, before *reading) *reading {
	last := new(list)
	if before != nil && before.list != nil {
		last = before.list
	}
	next := &list{next: last.next, rows: make(map[subject]row, len(last.rows))}
	begin := time.Now()
	p.history.begin(begin)
	for l, err := range inspect.List(ctx, p.locks, nil) {
		if err != nil {
			return faulty(err)
		}
		if len(next.rows) == p.cfg.Most {
			next.cut = true
			break
		}
		now := time.Now()
		next.add(rowOf(l, now), last, p.cfg.hash)
		p.history.saw(subject{l.Name, l.Limit}, &l, now)
	}
	next.at = time.Now()
	next.took = next.at.Sub(begin)
	p.history.complete(next.cut, next.at)
	next.told = p.history.tell(last.told, next.at)
	r := &reading{list: next, whole: sync.OnceValue(func() []byte {
		return event("locks", next.since(new(list), true))
	})}
	r.change = r.whole
	if before != nil && before.list != nil {
		change := event("locks", next.since(last, false))
		r.change = func() []byte { return change }
	}
	return r
}

// add has a row keep the ID, and times that have not moved, from the reading
// before.
func (n *list) add(r row, last *list, hash func(name string) string) {
	if old, known := last.rows[r.subject]; known {
		r.id, r.hash = old.id, old.hash
		r.since, r.until = steady(old.since, r.since), steady(old.until, r.until)
	} else {
		r.id, r.hash = n.next, hash(r.name)
		n.next++
	}
	n.rows[r.subject] = r
}

// listEvent is what is sent of a list. A row is an array, since there are many:
// see wire.
type listEvent struct {
	Now  int64 `json:"now"`
	Took int64 `json:"took"` // ms
	*told
	// Losses are the last ones, if they are others than before; the last one
	// first.
	Losses []lossText `json:"losses,omitempty"`

	Whole bool       `json:"whole,omitempty"`
	Cut   bool       `json:"cut,omitempty"`
	Set   [][]any    `json:"set,omitempty"`   // rows that are new or other
	Until [][2]int64 `json:"until,omitempty"` // IDs of rows of which only that is new, and it
	Gone  []int      `json:"gone,omitempty"`  // IDs
}

func (n *list) since(last *list, whole bool) listEvent {
	e := listEvent{
		Now: n.at.UnixMilli(), Took: n.took.Milliseconds(), told: n.told, Whole: whole, Cut: n.cut,
	}
	if whole || n.told.version != last.told.version {
		e.Losses = n.told.losses
	}
	for s, r := range n.rows {
		old, known := last.rows[s]
		switch {
		case !known || old.facts != r.facts || old.since != r.since:
			e.Set = append(e.Set, r.wire())
		case old.until != r.until:
			e.Until = append(e.Until, [2]int64{int64(r.id), r.until})
		}
	}
	for s, old := range last.rows {
		if _, still := n.rows[s]; !still {
			e.Gone = append(e.Gone, old.id)
		}
	}
	return e
}

// wire is the row as list.js reads it.
func (r row) wire() []any {
	flags := 0
	for i, set := range []bool{r.limit, r.broken, r.foreign, r.odd} {
		if set {
			flags |= 1 << i
		}
	}
	all := []any{
		r.id, r.label, flags, r.slots, r.node, r.pid, r.op, r.since, r.until, r.places, r.tasks,
		r.callers, r.hash,
	}
	if r.odd { // else the script makes it of the name
		all = append(all, r.query())
	}
	return all
}

// event is what the stream carries. A kind is a word, and JSON has no line
// breaks.
func event(kind string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // there is nothing in it that has no JSON
		panic("lockbeat: inspect/page: " + err.Error())
	}
	return append(append([]byte("event: "+kind+"\ndata: "), data...), "\n\n"...)
}
