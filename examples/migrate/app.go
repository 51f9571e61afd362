package main

import (
	"context"
	"time"

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

// worlds are the three, in the order in which a program moves. nodes are stores on Redis servers,
// made by redisstore.New.
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

// office sells tickets of a show. Nothing below changes when the locks move.
type office struct{ keeper *renewer.Keeper }

func newOffice(store renewer.Store, name string, ttl time.Duration) (*office, error) {
	keeper, err := renewer.New(store, renewer.Config{TTL: ttl, Node: name})
	return &office{keeper}, err
}

// sell sells the next ticket, under the show's lock. It waits for its turn for at most this long.
func (o *office) sell(ctx context.Context, s *show, wait time.Duration) (seat int, err error) {
	return lockmw.Do(ctx, o.keeper, lockmw.Key("show", s.name), s.sellNext, lockmw.Wait(wait))
}

// sellNext is the work. It knows nothing of locks, but for the fencing token that it passes on with
// what it writes.
func (s *show) sellNext(ctx context.Context) (seat int, err error) {
	seat, leave := s.enter()
	defer leave()
	select {
	case <-time.After(s.think): // print it, take the money
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return seat, s.write(seat, lockmw.Fence(ctx))
}
