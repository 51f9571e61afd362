package desk

import (
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Wish is what a caller wants.
type Wish struct {
	Now     timing.Instant // when it began
	Try     bool           // it does not wait until the name is free
	Limit   bool           // a slot of a limit
	Refused bool           // there was no slot for it, so that it asks in its turn
	Nested  bool           // work that holds another name asks
	Inside  bool           // it is counted in already
	Front   bool           // it comes only if it is at the front
	Trouble bool           // the store may be away: it does not ask aside
	Away    bool           // the store is away, and it does not wait for that
	Most    int            // callers in line; 0 any
	Plain   bool           // it may be handed the lease of another
	MaxHold time.Duration  // its own, for a hand-over
	LimitTo func() int     // of a limit: how many may have it, by the caller's own word
	Rank    int64          // how new it is; 0 if that does not matter
	Newest  *Newest        // none but the newest of its kind is to wait; nil otherwise
}

// Seat is where a caller is. Unless it is refused it is counted in, until
// Granted or Out.
type Seat[L comparable] struct {
	Turn   Turn
	Waiter *Waiter[L] // of one who waits
	Last   Last[L]    // what is known of the name, for one who is not at the front
}

// Turn is what a caller is to do.
type Turn uint8

// What a caller does at the front, beside it, or behind it; or why it does
// nothing.
const (
	Ask       Turn = iota // it is at the front
	Aside                 // ask for a slot, as nobody waits for one
	Wait                  // for Waiter.Answer
	Closed                // the desk is, for newcomers
	Away                  // the store is, and others wait for it already
	Taken                 // for one that does not wait, by Seat.Last
	Full                  // the line is
	Behind                // another is at the front, and Wish.Front
	Outranked             // a newer one has the name, or waits for it
)

// Join gives a caller its turn.
func (d *Desk[L]) Join(name contract.Name, l L, w Wish) Seat[L] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.admits(w) {
		return Seat[L]{Turn: Closed}
	}
	if w.Newest != nil {
		if d.outranked(name, w.Rank) {
			return Seat[L]{Turn: Outranked, Last: d.last(name)}
		}
		d.oust(name, w.Newest, w.Rank, w.Now)
	}
	_, taken := d.fronts.of(name)[name.Text]
	switch {
	case taken && w.Front:
		return Seat[L]{Turn: Behind}
	case taken && w.Away:
		return Seat[L]{Turn: Away}
	case taken:
		return d.behind(name, l, w)
	}
	d.countIn(w)
	if w.Limit && !w.Refused && !w.Trouble && !d.lately(name, w.Now) {
		return Seat[L]{Turn: Aside}
	}
	d.fronts.of(name)[name.Text] = front[L]{l: l, rank: w.Rank}
	return Seat[L]{Turn: Ask}
}

// behind has a caller wait.
func (d *Desk[L]) behind(name contract.Name, l L, w Wish) Seat[L] {
	s := Seat[L]{Last: d.last(name)}
	if w.Try && s.Last.Known {
		s.Turn = Taken
		return s
	}
	q := d.need(name)
	switch {
	case w.Most > 0 && !w.Try && w.Newest == nil && q.length >= w.Most:
		s.Turn = Full
	default:
		d.countIn(w)
		s.Turn, s.Waiter = Wait, &Waiter[L]{
			L: l, Answer: make(chan *Seen, 1), MaxHold: w.MaxHold, Limit: w.LimitTo, name: name,
			try: w.Try, plain: w.Plain, rank: w.Rank,
		}
		q.push(s.Waiter)
	}
	return s
}

// admits reports whether one may come who wants that.
func (d *Desk[L]) admits(w Wish) bool {
	return d.open == forAll || d.open == forNested && w.Nested
}

func (d *Desk[L]) countIn(w Wish) {
	if !w.Inside {
		d.inside++
	}
}
