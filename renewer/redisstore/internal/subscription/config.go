package subscription

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// Config is what a [Subscriber] needs. All fields but Topology and Try are
// mandatory.
type Config struct {
	Client rueidis.Client
	// Topology is that of a cluster; nil for a single server.
	Topology *topology.Topology
	// Timeout bounds one request on a subscription.
	Timeout time.Duration
	// Try looks whether a fresh connection is of use; nil if that is not to be
	// asked. It is: an address may lead to a former primary, by which nothing
	// is published any more.
	Try func(context.Context, rueidis.DedicatedClient) error
}

// ErrClosed is what watches hear once the subscriber is closed.
var ErrClosed = errors.New("redisstore: watch: the store is closed; waiters go on by their own " +
	"timers")

// linger is how long a channel that is no longer watched is kept, and then a
// connection on which none is watched, as the next watch often comes soon.
const linger = time.Second
