package deploy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Connection is a worker's.
type Connection struct {
	Store renewer.Store
	// Close must be called when the keeper is shut down.
	Close func()
}

// Connect makes a worker's store.
func (s Spec) Connect(ttl time.Duration) (*Connection, error) {
	if s.Quorum {
		return s.connectEach(ttl)
	}
	store, closing, err := s.connect(ttl, s.Addrs)
	if err != nil {
		return nil, err
	}
	return &Connection{Store: store, Close: closing}, nil
}

// connectEach makes the store of a quorum.
func (s Spec) connectEach(ttl time.Duration) (*Connection, error) {
	var nodes []renewer.Store
	var closers []func()
	closing := func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	for _, addr := range s.Addrs {
		node, closeNode, err := s.connect(ttl, []string{addr})
		if err != nil {
			closing()
			return nil, err
		}
		nodes, closers = append(nodes, node), append(closers, closeNode)
	}
	q, err := quorum.New(nodes, quorum.Names(s.Addrs...), quorum.Log(renewer.Silent))
	if err != nil {
		closing()
		return nil, err
	}
	closers = append(closers, q.Close)
	return &Connection{Store: q, Close: closing}, nil
}

// WriteTimeout is that of the stores' connections: what redisstore.ClientOption would make of the
// TTL.
func WriteTimeout(ttl time.Duration) time.Duration { return ttl / 6 }

// connect makes the store of one server, or of servers that belong together.
func (s Spec) connect(
	ttl time.Duration, addrs []string,
) (*redisstore.Store, func(), error) {
	option, err := redisstore.ClientOption(rueidis.ClientOption{
		ConnWriteTimeout: WriteTimeout(ttl),
		InitAddress:      addrs, Username: User, Password: Password, DisableCache: true,
		ForceSingleClient: s.Kind != Cluster && s.MasterSet == "",
		Sentinel:          rueidis.SentinelOption{MasterSet: s.MasterSet},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn,
			error,
		) {
			by, ok := s.By[addr]
			if !ok {
				return nil, fmt.Errorf("deploy: no link to %s", addr)
			}
			return d.DialContext(ctx, "tcp", by)
		},
	}, ttl)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout),
		redisstore.Log(renewer.Silent))
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, func() { store.Close(); client.Close() }, nil
}
