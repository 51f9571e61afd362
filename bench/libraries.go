package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	syncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockbeat/lockbeat/renewer"
)

// errItself is what extend answers for a library that renews without being asked.
var errItself = errors.New("the library renews by itself")

type keeperMutex struct {
	keeper *renewer.Keeper
	name   string
	lease  *renewer.Lease
}

func keeperContender(d deployment, ttl time.Duration) (*contender, error) {
	keeper, client, err := connectKeeperOn(d, ttl)
	if err != nil {
		return nil, err
	}
	return &contender{mutex: func(name string) mutex {
		return &keeperMutex{keeper: keeper, name: name}
	}, close: func() {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		_ = keeper.Shutdown(ctx) // what it could not free lapses, or goes with the server
		client.Close()
	}}, nil
}

func (m *keeperMutex) lock(ctx context.Context) (told context.Context, err error) {
	if m.lease, err = m.keeper.Acquire(ctx, m.name); err != nil {
		return nil, err
	}
	return m.lease.Context(), nil
}

func (m *keeperMutex) extend(context.Context) error     { return errItself }
func (m *keeperMutex) unlock(ctx context.Context) error { return m.lease.Release(ctx) }

type lockerMutex struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func lockerContender(d deployment, ttl time.Duration) (*contender, error) {
	locker, err := newLocker(d, ttl)
	if err != nil {
		return nil, err
	}
	return &contender{mutex: func(name string) mutex {
		return &lockerMutex{locker: locker, name: name}
	}, close: locker.Close}, nil
}

func (m *lockerMutex) lock(ctx context.Context) (told context.Context, err error) {
	told, m.cancel, err = m.locker.WithContext(ctx, m.name)
	return told, err
}

func (m *lockerMutex) extend(context.Context) error { return errItself }

func (m *lockerMutex) unlock(context.Context) error {
	m.cancel()
	return nil
}

// redsyncMutex is redsync's own, told to try for as long as it may:
// its delays of 50 to 250 ms are its defaults.
type redsyncMutex struct{ *redsync.Mutex }

func newRedsync(sync *redsync.Redsync, ttl time.Duration, closeClient func()) *contender {
	return &contender{mutex: func(name string) mutex {
		return redsyncMutex{sync.NewMutex(name, redsync.WithExpiry(ttl),
			redsync.WithTries(math.MaxInt32))}
	}, close: closeClient}
}

func redsyncOnRueidis(d deployment, ttl time.Duration) (*contender, error) {
	client, err := rueidis.NewClient(peerOption(d))
	if err != nil {
		return nil, err
	}
	return newRedsync(redsync.New(syncrueidis.NewPool(rueidiscompat.NewAdapter(client))), ttl,
		client.Close), nil
}

func redsyncOnGoRedis(d deployment, ttl time.Duration) (*contender, error) {
	client := newGoRedis(d.addr)
	return newRedsync(redsync.New(syncgoredis.NewPool(client)), ttl, func() {
		_ = client.Close()
	}), nil
}

func newGoRedis(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

func (m redsyncMutex) lock(ctx context.Context) (context.Context, error) {
	return nil, m.LockContext(ctx)
} //nolint:nilnil // as mutex says

func (m redsyncMutex) extend(ctx context.Context) error { return sure(m.ExtendContext(ctx)) }
func (m redsyncMutex) unlock(ctx context.Context) error { return sure(m.UnlockContext(ctx)) }

func sure(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("it was not ours")
	}
	return err
}

type redislockMutex struct {
	client *bsm.Client
	name   string
	ttl    time.Duration
	held   *bsm.Lock
}

// redislockRetry is the delay between two tries that bsm/redislock's documentation shows.
const redislockRetry = 100 * time.Millisecond

func redislockContender(d deployment, ttl time.Duration) (*contender, error) {
	client := newGoRedis(d.addr)
	locks := bsm.New(client)
	return &contender{
		mutex: func(name string) mutex {
			return &redislockMutex{client: locks, name: name, ttl: ttl}
		},
		close: func() { _ = client.Close() },
	}, nil
}

func (m *redislockMutex) lock(ctx context.Context) (told context.Context, err error) {
	m.held, err = m.client.Obtain(ctx, m.name, m.ttl,
		&bsm.Options{RetryStrategy: bsm.LinearBackoff(redislockRetry)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return nil, nil //nolint:nilnil // as mutex says
}

func (m *redislockMutex) extend(ctx context.Context) error {
	return m.held.Refresh(ctx, m.ttl, nil)
}
func (m *redislockMutex) unlock(ctx context.Context) error { return m.held.Release(ctx) }
