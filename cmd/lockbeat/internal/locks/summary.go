package locks

import (
	"cmp"
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

// ageOf is how long ago a lock was granted; of a limit, its oldest slot; 0 if no owner has it.
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

// orders are by what a list may be sorted.
var orders = map[string]func(a, b *store.Lock) int{
	"age":  func(a, b *store.Lock) int { return cmp.Compare(ageOf(b), ageOf(a)) },
	"name": byName,
	"ttl":  func(a, b *store.Lock) int { return cmp.Compare(ttlOf(a), ttlOf(b)) },
	"waiters": func(a, b *store.Lock) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(ageOf(b), ageOf(a)))
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

// sortBy sorts by one of the orders, and what is alike by name, so that it does not jump about.
func sortBy(locks []store.Lock, order func(a, b *store.Lock) int) {
	slices.SortFunc(locks, func(a, b store.Lock) int {
		return cmp.Or(order(&a, &b), byName(&a, &b))
	})
}

// table is the table of ls and top.
func table(locks []store.Lock) *out.Table {
	t := &out.Table{Columns: []out.Column{
		{Title: "NAME", Least: 14},
		{Title: "HOLDER", Least: 12, Drop: 2},
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
		if lock.Waiting > 0 {
			waiting = strconv.Itoa(lock.Waiting)
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
