package connect

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Open opens the store of locks for commands that look at locks and break them:
// its user needs no other rights. It may be called concurrently.
func Open(ctx context.Context) (*redisstore.Store, error) {
	return open(ctx, 0, redisstore.ToInspect())
}

// OpenFor opens the store for leases of the given TTL. It may be called
// concurrently.
func OpenFor(ctx context.Context, ttl time.Duration) (*redisstore.Store, error) {
	return open(ctx, ttl)
}

func open(
	ctx context.Context, ttl time.Duration, options ...redisstore.Option,
) (*redisstore.Store, error) {
	s, err := read(ctx)
	if err != nil {
		return nil, err
	}
	return redisstore.Open(ctx, redisstore.Deployment{
		Option: s.Option, Cluster: s.Cluster, Prefix: s.Prefix, TTL: ttl,
	}, append(options, redisstore.Log(renewer.Silent))...) // `lockbeat doctor` warns
}
