package desk

import (
	"runtime"

	"github.com/lockbeat/lockbeat/internal/contract"
)

// Last is what is known of a name to those who are not at its front. It is
// Known if that is an answer to one who does not wait: it is none while the
// front has not heard from the store, nor while it gives the name back. Of a
// limit Seen is then what a front before has heard, if any has.
type Last[L comparable] struct {
	Known bool
	Has   L    // who has the name, here; zero if nobody does
	Seen  Seen // what the store has said, if nobody here has it
	Had   bool // somebody here has had it since callers wait
}

// Names returns how many names have a front, or callers of whom the newest is
// to wait.
func (d *Desk[L]) Names() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.fronts.len()
	for name := range d.newest.all {
		if _, there := d.fronts.of(name)[name.Text]; !there {
			n++
		}
	}
	return n
}

// Last returns what is known of a name.
func (d *Desk[L]) Last(name contract.Name) Last[L] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last(name)
}

// Waiting counts those who wait for l to give its name back, or for one more
// slot beside it.
func (d *Desk[L]) Waiting(name contract.Name, l L) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, there := d.fronts.of(name)[name.Text]
	if !there {
		return 0
	}
	if f.l != l { // l has a slot, and the front asks for one more
		n++
	}
	if q := d.lines.of(name)[name.Text]; q != nil {
		n += q.length
	}
	return n
}

// AskAtFronts returns those who are at a front without the name.
func (d *Desk[L]) AskAtFronts() (all []L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.fronts.all {
		if f.has == asks {
			all = append(all, f.l)
		}
	}
	return all
}

// Asking returns those who are at a front without the name, and those who wait,
// name by name in order. Others have the desk for a moment after each chunk:
// who comes or goes meanwhile may be among them.
func (d *Desk[L]) Asking(chunk int) (all []L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	looked := 0
	breathe := func() {
		looked++
		if looked%chunk == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			d.mu.Lock()
		}
	}
	for name, f := range d.fronts.all { // which may change meanwhile, as a map may
		if f.has == asks {
			all = append(all, f.l)
		}
		breathe()
		if q := d.lines.of(name)[name.Text]; q != nil {
			for w := q.first; w != nil; w = q.after(w) {
				all = append(all, w.L)
				breathe()
			}
		}
	}
	return all
}

// InLine returns how many wait behind the front of a name.
func (d *Desk[L]) InLine(name contract.Name) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.lines.of(name)[name.Text]; q != nil {
		return q.length
	}
	return 0
}

func (d *Desk[L]) last(name contract.Name) (last Last[L]) {
	f, there := d.fronts.of(name)[name.Text]
	if there && f.has != asks {
		return Last[L]{Known: f.has == holds, Has: f.l}
	}
	switch q := d.lines.of(name)[name.Text]; {
	case q == nil:
	case q.seen.Known:
		return Last[L]{Known: true, Seen: q.seen}
	default:
		last.Seen, last.Had = q.full, q.had
	}
	return last
}
