package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// world is where the locks are.
type world struct {
	name  string
	store func(nodes []renewer.Store) (renewer.Store, error)
	line  string // what differs, to be printed
}

// worlds are the three, in the order in which a program moves. nodes
// are stores on Redis servers, as connect makes them.
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

// lockTTL is short, so that losses show within seconds.
// renewer.DefaultTTL (15 s) suits most programs better.
const lockTTL = 2 * time.Second

// connect makes a store on a server.
func connect(
	option rueidis.ClientOption, prefix string,
) (store *redisstore.Store, end func(), err error) {
	if option, err = redisstore.ClientOption(option, lockTTL); err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	store, err = redisstore.New(client, redisstore.Prefix(prefix),
		redisstore.WriteTimeout(option.ConnWriteTimeout))
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, func() { store.Close(); client.Close() }, nil
}

// openOffices makes a keeper for each of the box offices, on one
// store. They might be programs of their own, but for memory.
func openOffices(store renewer.Store) (offices []*office, err error) {
	for _, name := range []string{"office-a", "office-b"} {
		k, err := renewer.New(store, renewer.Config{TTL: lockTTL, Node: name})
		if err != nil {
			return nil, errors.Join(err, closeOffices(offices))
		}
		offices = append(offices, &office{name: name, keeper: k})
	}
	return offices, nil
}

func closeOffices(offices []*office) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTTL)
	defer cancel()
	var errs []error
	for _, o := range offices {
		errs = append(errs, o.keeper.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
