package subscription

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// Config is what a [Subscriber] needs. All fields but Topology are mandatory.
type Config struct {
	Client rueidis.Client
	// Topology is that of a cluster; nil for a single server.
	Topology *topology.Topology
	// Timeout bounds one request on a subscription.
	Timeout time.Duration
	// Audience says for whom a message is. It is called on the connection's reading goroutine, and
	// may not call the Subscriber.
	Audience func(message string) Audience
	// Later is how long AudienceUsLater waits.
	Later time.Duration
}

// Audience is for whom a message is.
type Audience uint8

// For whom a message is.
const (
	// AudienceAll wakes every watch on the channel.
	AudienceAll Audience = iota
	// AudienceUs is for this process: it wakes every watch on the channel, and, if there is none
	// now, the next one that begins there.
	AudienceUs
	// AudienceUsLater wakes every watch on the channel after Config.Later.
	AudienceUsLater
	// AudienceOthers is for other processes, and wakes no watch.
	AudienceOthers
)

// ErrClosed is what watches hear once the subscriber is closed.
var ErrClosed = errors.New("redisstore: watch: the store is closed; waiters go on by their own " +
	"timers")

// linger is how long a channel that is no longer watched stays subscribed to, and a connection
// without channels stays open, as the next watch often comes soon.
const linger = time.Second
