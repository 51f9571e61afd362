// Package embedded is a Redis inside the process, by miniredis:
// enough for examples and for tests that need no real server.
//
//	redis, err := embedded.Start()
//	defer redis.Close()
//	client, err := rueidis.NewClient(redis.ClientOption())
//
// Keys expire as time goes by, which miniredis doesn't do by itself. What it
// does not have: client-side caching, CONFIG, sharded pub/sub, persistence, ACL
// rules. Whatever depends on those, or on speed, needs a real server: see
// redistest.
//
// It is test code: no production package may import it.
package embedded

import (
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// Redis is a server on a loopback port of its own. Its methods may be called
// concurrently.
type Redis struct {
	mini *miniredis.Miniredis
	addr string
}

// Start starts an empty server. The caller must Close it.
func Start() (*Redis, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("embedded: start miniredis: %w", err)
	}
	// Each command moves the TTLs by the time since the one before. A goroutine
	// that calls FastForward now and then would let a key live for up to its
	// period beyond its TTL.
	mini.ClockTTL(true)
	return &Redis{mini: mini, addr: mini.Addr()}, nil
}

// Run is [Start] for a test: the server is closed when tb ends.
func Run(tb testing.TB) *Redis {
	tb.Helper()
	r, err := Start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// Addr returns the server's address, "127.0.0.1:port", for clients of
// any kind: asynq's go here too.
func (r *Redis) Addr() string { return r.addr }

// Mini returns the server itself, to look into it, to make it fail
// (SetError), or to move its clock on (FastForward).
func (r *Redis) Mini() *miniredis.Miniredis { return r.mini }

// ClientOption returns the options without which rueidis can't work
// with miniredis. Add to them, but keep these.
func (r *Redis) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{r.Addr()},
		DisableCache:      true, // there is no tracking
		ForceSingleClient: true, // CLUSTER SLOTS names a cluster of one
		// under RESP3 a connection with a subscription refuses other commands
		AlwaysRESP2: true,
	}
}

// NewClient connects a client of its own. The caller must close it, before the
// server.
func (r *Redis) NewClient() (rueidis.Client, error) {
	client, err := rueidis.NewClient(r.ClientOption())
	if err != nil {
		return nil, fmt.Errorf("embedded: connect to %s: %w", r.Addr(), err)
	}
	return client, nil
}

// Client is [Redis.NewClient] for a test: the client is closed when tb ends.
func (r *Redis) Client(tb testing.TB) rueidis.Client {
	tb.Helper()
	client, err := r.NewClient()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// Close ends the server and its connections.
func (r *Redis) Close() { r.mini.Close() }
