package main

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
)

// world is where the locks are.
type world struct {
	name  string
	store func(nodes []renewer.Store) (renewer.Store, error)
	line  string // what differs, to be printed
}

// worlds are the three, in the order in which a program moves. nodes are stores
// on Redis servers, made by redisstore.New.
var worlds = []world{
	{"memory", func([]renewer.Store) (renewer.Store, error) {
		return memory.New(), nil
	}, "return memory.New(), nil"},
	{"one Redis", func(nodes []renewer.Store) (renewer.Store, error) {
		return nodes[0], nil
	}, "return nodes[0], nil"},
	{"a quorum", func(nodes []renewer.Store) (renewer.Store, error) {
		return quorum.New(nodes)
	}, "return quorum.New(nodes)"},
}

// office sells tickets. Nothing below changes when the locks move.
type office struct {
	keeper *renewer.Keeper
	ledger *ledger.Ledger
}

func newOffice(
	store renewer.Store, l *ledger.Ledger, name string, ttl time.Duration,
) (*office, error) {
	keeper, err := renewer.New(store, renewer.Config{TTL: ttl, Node: name})
	return &office{keeper, l}, err
}

// sell sells a ticket under the show's lock, and returns how many are left. It
// waits for its turn for at most this long. The ledger knows nothing of locks,
// but for the fencing token that comes with what is written.
func (o *office) sell(
	ctx context.Context, sale ledger.Order, wait time.Duration,
) (left int, err error) {
	return lockmw.Do(ctx, o.keeper, lockmw.Key("show", sale.From),
		func(ctx context.Context) (int, error) { return o.ledger.Transfer(ctx, sale) },
		lockmw.Wait(wait))
}
