package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// order asks for money to be moved.
type order struct{ from, to string }

// bank moves money as programs do that know nothing of each other:
// read, think, write. It stands for a database that the nodes share.
type bank map[string]*account

type account struct {
	balance atomic.Int64
	undone  atomic.Int64 // changes that another transfer wrote over
	inside  atomic.Int64 // transfers at work on it
	most    atomic.Int64 // of those at once
}

// transfer moves 1. It knows nothing of locks.
func (b bank) transfer(_ context.Context, o order) (struct{}, error) {
	from, to := b[o.from], b[o.to]
	defer from.enter()()
	defer to.enter()()
	hers, his := from.balance.Load(), to.balance.Load()
	<-time.After(time.Millisecond)
	from.write(hers, hers-1)
	to.write(his, his+1)
	return struct{}{}, nil
}

// write sets the balance, and counts what it undoes: a change since it was seen.
func (a *account) write(seen, balance int64) {
	if a.balance.Swap(balance) != seen {
		a.undone.Add(1)
	}
}

// exclusive is transfer under the locks of both accounts, whichever is named first.
func (b bank) exclusive(k *renewer.Keeper) func(context.Context, order) (struct{}, error) {
	return lockmw.Wrap(k, func(o order) string {
		return lockmw.Keys(lockmw.Key("account", o.from), lockmw.Key("account", o.to))
	}, b.transfer, lockmw.Wait(patience), lockmw.Operation("transfer"))
}

// patience is how long a transfer waits for its turn: longer than the
// whole crowd takes, shorter than a deadlock.
const patience = 10 * time.Second

// enter counts who is at work on an account, until the function that it returns is called.
func (a *account) enter() (leave func()) {
	n := a.inside.Add(1)
	for {
		most := a.most.Load()
		if n <= most || a.most.CompareAndSwap(most, n) {
			break
		}
	}
	return func() { a.inside.Add(-1) }
}
