package main

import (
	"context"
	"fmt"
	"time"
)

// The other libraries, by the names that the tables show; rueidislock is peer.
const (
	redsyncRueidis = "redsync on rueidis"
	redsyncGoRedis = "redsync on go-redis"
	redislock      = "bsm/redislock"
)

// contenders are all who are compared, Lockbeat first.
var contenders = []string{lockbeat, peer, redsyncRueidis, redsyncGoRedis, redislock}

// mutex is a lock on one name as one goroutine uses it, over and over. The
// interface is narrow, so that a library costs what it costs by itself.
type mutex interface {
	// lock waits until it has the lock. The context ends when the lock is lost; it is nil
	// of a library that leaves renewal, and so the knowledge of a loss, to its user. ctx
	// has a deadline where there is a wait: without one, bsm/redislock waits for one TTL.
	lock(ctx context.Context) (told context.Context, err error)
	// extend renews a lock whose library does not do so itself.
	extend(ctx context.Context) error
	unlock(ctx context.Context) error
}

// contender is one library, connected.
type contender struct {
	who   string
	mutex func(name string) mutex
	close func()
}

// deployment is where a library connects to, one server or one node of a cluster, and how.
type deployment struct {
	addr       string
	cluster    bool
	client     string        // the name of Lockbeat's connections at the server, or ""
	flushDelay time.Duration // MaxFlushDelay of other libraries on rueidis
}

// newContender connects a library with the settings that suit it best.
func newContender(who string, d deployment, ttl time.Duration) (*contender, error) {
	connect := map[string]func(deployment, time.Duration) (*contender, error){
		lockbeat: keeperContender, peer: lockerContender, redsyncRueidis: redsyncOnRueidis,
		redsyncGoRedis: redsyncOnGoRedis, redislock: redislockContender,
	}[who]
	switch {
	case connect == nil:
		return nil, fmt.Errorf("no library is called %q", who)
	case d.cluster && who != lockbeat:
		return nil, fmt.Errorf("%s is not measured on a cluster", who)
	}
	c, err := connect(d, ttl)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	c.who = who
	return c, nil
}

// keepAlive renews a lock for a library that leaves it to its user, as its
// documentation advises: from a goroutine for each lock, every third of the
// TTL. The context that it returns ends by the first renewal that fails,
// which is how such a user hears of a loss. end stops it and waits for it.
func keepAlive(
	ctx, told context.Context, m mutex, ttl time.Duration,
) (operation context.Context, end func()) {
	if told != nil {
		return told, func() {}
	}
	held, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(ttl / 3)
		defer ticker.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-ticker.C:
			}
			if err := m.extend(held); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return held, func() {
		cancel(nil)
		<-ended
	}
}
