package main

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// order asks for money to be moved.
type order struct{ from, to string }

// transfer moves 1, as programs do that know nothing of each other: read,
// think, write. It knows nothing of locks.
func (b bank) transfer(_ context.Context, o order) (struct{}, error) {
	from, to := b[o.from], b[o.to]
	hers, his := from.balance.Load(), to.balance.Load()
	<-time.After(time.Millisecond)
	from.write(hers, hers-1)
	to.write(his, his+1)
	return struct{}{}, nil
}

// exclusive is transfer under the locks of both accounts, whichever is named
// first. It waits longer for its turn than all transfers take, and shorter than
// a deadlock.
func (b bank) exclusive(k *renewer.Keeper) func(context.Context, order) (struct{}, error) {
	return lockmw.Wrap(k, func(o order) lockmw.Set {
		return lockmw.All(lockmw.Key("account", o.from), lockmw.Key("account", o.to))
	}, b.transfer, lockmw.Wait(10*time.Second), lockmw.Operation("transfer"))
}
