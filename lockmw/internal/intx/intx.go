// Package intx knows in which operations a transaction of a database is open,
// so that package lockmw can report a lock that is waited for in one.
package intx

import (
	"context"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

type key struct{}

// Mark returns the context of a function that runs in a transaction. first is
// what all transactions of one database share, so that a fault is reported once
// for each.
func Mark(ctx context.Context, first *sync.Once) context.Context {
	return context.WithValue(ctx, key{}, first)
}

// Of returns what the transaction that ctx runs in was marked with, nil if
// there is none.
func Of(ctx context.Context) *sync.Once {
	first, _ := ctx.Value(key{}).(*sync.Once)
	return first
}

// opened are the transactions that have no context of their own: those of
// connections that carry fences, by the innermost lease of the operation that
// has begun them.
var opened = struct {
	mu sync.Mutex
	by map[*renewer.Lease][]*sync.Once
}{by: make(map[*renewer.Lease][]*sync.Once)}

// Open is Mark for a transaction that the operation under a lease has begun,
// until closed is called.
func Open(l *renewer.Lease, first *sync.Once) (closed func()) {
	opened.mu.Lock()
	defer opened.mu.Unlock()
	opened.by[l] = append(opened.by[l], first)
	return sync.OnceFunc(func() {
		opened.mu.Lock()
		defer opened.mu.Unlock()
		if left := opened.by[l]; len(left) > 1 {
			opened.by[l] = left[1:]
		} else {
			delete(opened.by, l)
		}
	})
}

// OpenIn returns what a transaction was opened with that is open under a lease,
// nil if none is.
func OpenIn(l *renewer.Lease) *sync.Once {
	opened.mu.Lock()
	defer opened.mu.Unlock()
	if open := opened.by[l]; len(open) > 0 {
		return open[0]
	}
	return nil
}
