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
	// Primary is the address of the server that the client takes for the primary, without asking
	// anybody; nil without Sentinels.
	Primary func() string
	// Close must be called when the keeper is shut down.
	Close func()
}

// Connect makes a worker's store.
func (s Spec) Connect(ttl time.Duration) (*Connection, error) {
	if s.Quorum {
		return s.connectEach(ttl)
	}
	store, client, closing, err := s.connect(ttl, s.Addrs)
	if err != nil {
		return nil, err
	}
	c := &Connection{Store: store, Close: closing}
	if s.MasterSet != "" {
		c.Primary = func() string {
			for addr := range client.Nodes() {
				return addr
			}
			return ""
		}
	}
	return c, nil
}

// ConnectTo makes a store on one server, whatever the Sentinels say of it.
func (s Spec) ConnectTo(ttl time.Duration, addr string) (*Connection, error) {
	return Spec{Kind: Standalone, Addrs: []string{addr}, By: s.By}.Connect(ttl)
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
		node, _, closeNode, err := s.connect(ttl, []string{addr})
		if err != nil {
			closing()
			return nil, err
		}
		nodes, closers = append(nodes, node), append(closers, closeNode)
	}
	q, err := quorum.New(nodes, quorum.Names(s.Addrs...), quorum.Forgetful(s.Forgetful))
	if err != nil {
		closing()
		return nil, err
	}
	closers = append(closers, q.Close)
	return &Connection{Store: q, Close: closing}, nil
}

// Settle is the write timeout of the stores' connections: what
// redisstore.ClientOption would make of the TTL.
func Settle(ttl time.Duration) time.Duration { return ttl / 6 }

// connect makes the store of one server, or of servers that belong together.
func (s Spec) connect(
	ttl time.Duration, addrs []string,
) (*redisstore.Store, rueidis.Client, func(), error) {
	option, err := redisstore.ClientOption(rueidis.ClientOption{
		ConnWriteTimeout: Settle(ttl),
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
		return nil, nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
	if err != nil {
		client.Close()
		return nil, nil, nil, err
	}
	return store, client, func() { store.Close(); client.Close() }, nil
}
