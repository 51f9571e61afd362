package stage

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// TTL is that of the locks. It is short, so that a loss shows within
// seconds. renewer.DefaultTTL (15 s) suits most programs better.
const TTL = 3 * time.Second

// node is what every program with locks has: a Redis client, and on it a keeper.
type node struct {
	client rueidis.Client
	store  *redisstore.Store
	keeper *renewer.Keeper
}

// openNode is what a program of yours would do when it starts.
func openNode(
	option rueidis.ClientOption, name, prefix string, ttl time.Duration, o renewer.Observer,
) (n *node, err error) {
	n = &node{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close(context.Background()))
		}
	}()
	if option, err = redisstore.ClientOption(option, ttl); err != nil {
		return n, err
	}
	if n.client, err = rueidis.NewClient(option); err != nil {
		return n, err
	}
	n.store, err = redisstore.New(n.client, redisstore.Prefix(prefix),
		redisstore.WriteTimeout(option.ConnWriteTimeout))
	if err != nil {
		return n, err
	}
	n.keeper, err = renewer.New(n.store, renewer.Config{TTL: ttl, Node: name, Observer: o})
	return n, err
}

// close ends it when nobody works under its locks any more: locks before their connection.
func (n *node) close(ctx context.Context) (err error) {
	if n.keeper != nil {
		err = n.keeper.Shutdown(ctx)
	}
	if n.store != nil {
		n.store.Close()
	}
	if n.client != nil {
		n.client.Close()
	}
	return err
}
