// Package fence has a database refuse what a late holder of a lock writes, over
// one table of fences. Packages fencetx and fencedb stand on it.
//
// A name's row has the highest token whose holder has begun a transaction. The
// first transaction of a lease raises it, each one shares it to its end:
//
//	BeginTx under a lock with token T
//	 ├─ the first of the lease: raise
//	 │     the claim := T   nobody shares it, so this waits for nobody. New transactions of the
//	 │                      former holder fail from here on: else theirs could overlap, and share
//	 │                      the row, for ever
//	 │     the row := T     waits for the former holder's transactions under way
//	 └─ each one: BEGIN, check
//	       claim = row = T  the row is shared until the transaction ends
//	       one is higher    the lock is lost
//	       one is lower     or missing: raise, and begin again
//
// While a transaction shares the row no successor can raise it, so COMMIT needs
// no check. A write of the row in each transaction would do as well, but one
// holder's would wait for each other, and at REPEATABLE READ be in conflict.
package fence

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// Dialect is a kind of database.
type Dialect int

// The dialects. The zero value is none.
const (
	PostgreSQL Dialect = iota + 1
	MySQL
	SQLite
)

// Lock is one that a transaction is begun under.
type Lock struct {
	Name  string
	Token int64

	keeper *renewer.Keeper
}

// Fence is what a transaction that is begun under locks has to carry.
type Fence struct {
	Dialect Dialect
	Locks   []Lock // each name once, in the order in which all take their rows
}

// of is the fence of the locks of this process that ctx runs under, nil if
// there are none that count, and a slot that it runs under.
func of(
	ctx context.Context, d Dialect, counts func(name string) bool,
) (f *Fence, slot *scope.Hold) {
	var locks []Lock
	for held := range scope.Leases(ctx) {
		name := held.Name()
		switch {
		case counts != nil && !counts(name):
		case held.Limited:
			slot = &held
		case slices.ContainsFunc(locks, func(l Lock) bool { return l.Name == name }):
		default:
			locks = append(locks, Lock{name, held.Fence(), held.Keeper})
		}
	}
	if locks == nil {
		return nil, slot
	}
	slices.SortFunc(locks, func(a, b Lock) int { return strings.Compare(a.Name, b.Name) })
	return &Fence{d, locks}, slot
}

// covers reports whether a transaction with the fence f, or none, carries all
// locks of other.
func (f *Fence) covers(other *Fence) bool {
	if f == nil {
		return false
	}
	for _, l := range other.Locks {
		_, found := slices.BinarySearchFunc(f.Locks, l, func(a, b Lock) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Token, b.Token))
		})
		if !found {
			return false
		}
	}
	return true
}
