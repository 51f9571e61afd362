package locks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// The states of a lock, beside held.
const (
	stateBroken  = "broken"  // and its holder has not freed it yet
	stateTurn    = "turn"    // it is kept for a waiter, whose turn it is
	stateForeign = "foreign" // another program's key
	stateHeld    = "held"
	stateFree    = "free"
)

// stateOf is a lock's state in one word, the most alarming.
func stateOf(lock *store.Lock) string {
	broken := func(s store.Slot) bool { return s.Broken != nil }
	switch {
	case lock.Foreign:
		return stateForeign
	case slices.ContainsFunc(lock.Slots, broken):
		return stateBroken
	case len(lock.Slots) > 0:
		return stateHeld
	case lock.Turns > 0:
		return stateTurn
	default:
		return stateFree
	}
}

// isFree reports whether no owner has a lock, and none waits for it.
func isFree(lock *store.Lock) bool {
	return stateOf(lock) == stateFree && lock.WaitingInAll() == 0
}

// ageOf is how long ago a lock was granted; of a limit, its oldest slot; 0 if
// no owner has it.
func ageOf(lock *store.Lock) (age time.Duration) {
	for _, s := range lock.Slots {
		age = max(age, lock.At.Sub(s.Since))
	}
	return age
}

// titleOf is a lock's name as it is shown.
func titleOf(lock *store.Lock) string {
	name := out.Safe(lock.Name)
	if lock.Limit {
		name += " (limit)"
	}
	return name
}

// holderOf is who has a lock, in one cell.
func holderOf(lock *store.Lock) string {
	switch {
	case lock.Foreign && len(lock.Slots) == 0:
		return "another program"
	case len(lock.Slots) == 1:
		return out.Safe(lock.Slots[0].String())
	case len(lock.Slots) > 1:
		return strconv.Itoa(len(lock.Slots)) + " hold it"
	default:
		return "-"
	}
}

// rank is by what a lock is sorted, the lowest first; what is alike is sorted
// by name.
type rank [2]int64

// orders are by what a list may be sorted.
var orders = map[string]func(lock *store.Lock) rank{
	"age":  func(lock *store.Lock) rank { return rank{-int64(ageOf(lock))} },
	"name": func(*store.Lock) rank { return rank{} },
	"ttl":  func(lock *store.Lock) rank { return rank{int64(ttlOf(lock))} },
	"waiters": func(lock *store.Lock) rank {
		return rank{-int64(lock.WaitingInAll()), -int64(ageOf(lock))}
	},
}

func byName(a, b *store.Lock) int {
	if a.Limit != b.Limit && a.Name == b.Name {
		if a.Limit {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.Name, b.Name)
}

// ttlOf is when the next slot lapses. What has none comes last.
func ttlOf(lock *store.Lock) time.Duration {
	if len(lock.Slots) == 0 {
		return 1<<63 - 1
	}
	return lock.Slots[0].TTL
}

// sortBy sorts by one of the orders. Each lock is ranked once, since there may
// be very many.
func sortBy(locks []store.Lock, order func(lock *store.Lock) rank) []store.Lock {
	type ranked struct {
		rank rank
		lock *store.Lock
	}
	all := make([]ranked, len(locks))
	for i := range locks {
		all[i] = ranked{order(&locks[i]), &locks[i]}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank[0], b.rank[0]), cmp.Compare(a.rank[1], b.rank[1]),
			byName(a.lock, b.lock))
	})
	sorted := make([]store.Lock, len(locks))
	for i := range all {
		sorted[i] = *all[i].lock
	}
	return sorted
}

// sum says at a glance how bad it is: how much is held, who waits for what,
// what is out of order, and what is held for longest. The most important comes
// first.
func sum(all []store.Lock) (parts []string) {
	held, waiting := 0, 0
	odd := make(map[string]int)
	var busiest, oldest *store.Lock
	for i := range all {
		lock := &all[i]
		state := stateOf(lock)
		odd[state]++
		if len(lock.Slots) > 0 || lock.Foreign {
			held++
		}
		n := lock.WaitingInAll()
		waiting += n
		if n > 0 && (busiest == nil || n > busiest.WaitingInAll()) {
			busiest = lock
		}
		if ageOf(lock) > 0 && (oldest == nil || ageOf(lock) > ageOf(oldest)) {
			oldest = lock
		}
	}
	parts = append(parts, fmt.Sprintf("%d held, %d waiting", held, waiting))
	if busiest != nil {
		parts = append(parts, fmt.Sprintf("%d for %s", busiest.WaitingInAll(), shortTitle(busiest)))
	}
	for _, state := range []string{stateBroken, stateForeign} {
		if odd[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", odd[state], state))
		}
	}
	if oldest != nil {
		parts = append(parts, fmt.Sprintf("oldest %s for %s", shortTitle(oldest),
			out.Duration(ageOf(oldest))))
	}
	return parts
}

// mostTitle is how many columns a name takes in a line of its own with others.
const mostTitle = 40

func shortTitle(lock *store.Lock) string { return out.Short(titleOf(lock), mostTitle) }

// glance is as much of a sum as fits into so many columns, 0 for any number.
func glance(before string, parts []string, after string, columns int) string {
	text := before + parts[0]
	for _, part := range parts[1:] {
		if more := text + "; " + part; columns == 0 || out.Width(more+after) <= columns {
			text = more
		}
	}
	if columns == 0 {
		return text + after
	}
	return out.Short(text+after, columns)
}

// table is the table of ls and top.
func table(locks []store.Lock) *out.Table {
	t := &out.Table{Columns: []out.Column{
		{Title: "NAME", Least: 14, Most: 120},
		{Title: "HOLDER", Least: 12, Most: 80, Drop: 2},
		{Title: "AGE", Right: true},
		{Title: "TTL", Right: true, Drop: 1},
		{Title: "WAITING", Right: true},
		{Title: "STATE", Rare: true},
	}}
	for i := range locks {
		lock := &locks[i]
		age, ttl, waiting := "-", "-", "-"
		if len(lock.Slots) > 0 {
			age, ttl = out.Duration(ageOf(lock)), out.Duration(ttlOf(lock))
		}
		if n := lock.WaitingInAll(); n > 0 {
			waiting = strconv.Itoa(n)
		}
		state := stateOf(lock)
		if state == stateHeld {
			state = ""
		}
		t.Rows = append(t.Rows, []string{
			titleOf(lock), holderOf(lock), age, ttl, waiting, state,
		})
	}
	return t
}
