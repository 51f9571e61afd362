package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// TTL is that of the locks. It is short, so that a loss shows within seconds.
// renewer.DefaultTTL (15 s) suits most programs better.
const TTL = 2 * time.Second

// Keeper returns a keeper for a node, on a connection of its own. o may be nil.
func (d *Demo) Keeper(node string, o renewer.Observer) (*renewer.Keeper, error) {
	store, err := d.Store(0, node)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", node, err)
	}
	k, err := renewer.New(store, renewer.Config{TTL: TTL, Node: node, Observer: o})
	if err != nil {
		return nil, err
	}
	d.AtEnd(k.Shutdown)
	return k, nil
}

// Store returns a store on server i for a node.
func (d *Demo) Store(i int, node string) (*redisstore.Store, error) {
	option, _, err := d.Link(i)
	if err != nil {
		return nil, err
	}
	store, closeStore, err := connect(option, d.Prefix(node), TTL)
	if err != nil {
		return nil, err
	}
	d.AtEnd(func(context.Context) error { closeStore(); return nil })
	return store, nil
}

// Prefix is that of a node's keys.
func (d *Demo) Prefix(node string) string {
	if d.setting.Apart {
		return d.Name + "-" + node + ":"
	}
	return d.Name + ":"
}

// connect makes a store as a program would when it starts.
func connect(
	option rueidis.ClientOption, prefix string, ttl time.Duration,
) (store *redisstore.Store, closeStore func(), err error) {
	option, err = redisstore.ClientOption(option, ttl)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	// A machine on which many processes start at once may need more than one attempt.
	for late := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(late); {
		<-time.After(50 * time.Millisecond)
		client, err = rueidis.NewClient(option)
	}
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

// Serve runs a server on a loopback port of its own until the demo ends, and returns its address.
func (d *Demo) Serve(
	serve func(net.Listener) error, stop func(context.Context) error,
) (addr string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- serve(listener) }()
	d.AtEnd(func(ctx context.Context) error {
		err := stop(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return listener.Addr().String(), nil
}

// Wait waits for c and returns nil, or for the end of ctx and returns its cause.
func Wait[T any](ctx context.Context, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}
