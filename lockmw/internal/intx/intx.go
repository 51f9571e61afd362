// Package intx marks contexts in which a transaction of a database is open, so that package lockmw
// can report a lock that is waited for in one.
package intx

import (
	"context"
	"sync"
)

type key struct{}

// Mark returns the context of a function that runs in a transaction. first is what all transactions
// of one database share, so that a fault is reported once for each.
func Mark(ctx context.Context, first *sync.Once) context.Context {
	return context.WithValue(ctx, key{}, first)
}

// Of returns what the transaction that ctx runs in was marked with, nil if there is none.
func Of(ctx context.Context) *sync.Once {
	first, _ := ctx.Value(key{}).(*sync.Once)
	return first
}
