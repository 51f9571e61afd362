package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// The contestants, by the names that the tables show. By hand is what a user
// can write: SET NX PX, and a script that compares and deletes. It has no
// heartbeat, no wake-up, no clean-up after lost replies and no token of its own
// for each lock.
const (
	synchronous = "by hand (synchronous)"   // a pool of connections, each for one request at a time
	pipelined   = "by hand (pipelined)"     // one connection that all share
	delayed     = "by hand (MaxFlushDelay)" // the same; writes wait 20 µs for more requests
	lockbeat    = "Lockbeat"
	locker      = "rueidislock"
	redsyncs    = "redsync on rueidis"
	redislock   = "bsm/redislock"
)

var (
	everyone  = []string{synchronous, pipelined, delayed, lockbeat, locker, redsyncs, redislock}
	libraries = everyone[3:]
)

// ttl is that of every lock. Only those are held for longer whose library
// renews them.
const ttl = 10 * time.Second

// mutex is a lock on one name as one goroutine uses it, over and over. The
// interface is narrow, so that a library costs what it costs by itself.
type mutex interface {
	lock(ctx context.Context) error // waits until it has the lock
	unlock(ctx context.Context) error
}

// library is connected to a server.
type library struct {
	mutex func(name string) mutex
	close func()
	limit func(name, id string, slots []int) mutex // of one goroutine; nil if it has none
}

// connect connects a library with the settings that suit it best.
func connect(who, addr string) (library, error) {
	connect := map[string]func(rueidis.ClientOption) (library, error){
		synchronous: handWritten, pipelined: handWritten, delayed: handWritten,
		lockbeat: oursFor(ttl), locker: rueidisLock, redsyncs: redsyncOnRueidis,
		redislock: bsmRedislock, doing: oursByDo, brief: oursFor(time.Second),
	}[who]
	for kind, of := range semaphores {
		if strings.HasPrefix(who, kind) {
			connect = semaphoreByHand(of)
		}
	}
	option := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
	option.DisableAutoPipelining = strings.HasSuffix(who, synchronous)
	if strings.HasSuffix(who, pipelined) || who == delayed {
		option.AlwaysPipelining, option.PipelineMultiplex = true, -1
	}
	if who == delayed {
		option.MaxFlushDelay = 20 * time.Microsecond
	}
	lib, err := connect(option)
	if err != nil {
		return library{}, fmt.Errorf("%s: connect to %s: %w", who, addr, err)
	}
	return lib, nil
}

type keeperMutex struct {
	keeper  *renewer.Keeper
	request renewer.Request
	lease   *renewer.Lease
}

func oursFor(ttl time.Duration) func(rueidis.ClientOption) (library, error) {
	return func(option rueidis.ClientOption) (library, error) {
		keeper, closeAll, err := newKeeper(option, ttl)
		return library{
			mutex: func(name string) mutex {
				return &keeperMutex{keeper: keeper, request: renewer.Request{Name: name}}
			},
			close: closeAll,
			limit: func(name, _ string, slots []int) mutex {
				return slotsOf(keeper, name, slots[0])
			},
		}, err
	}
}

func newKeeper(
	option rueidis.ClientOption, ttl time.Duration,
) (keeper *renewer.Keeper, closeAll func(), err error) {
	store, err := newStore(option, ttl)
	if err != nil {
		return nil, nil, err
	}
	if keeper, err = renewer.New(store, renewer.Config{TTL: ttl}); err != nil {
		store.Close()
		return nil, nil, err
	}
	return keeper, func() {
		_ = keeper.Shutdown(context.Background()) // each lock is free
		store.Close()
	}, nil
}

// newStore has a client of its own.
func newStore(option rueidis.ClientOption, ttl time.Duration) (*redisstore.Store, error) {
	// A machine on which many processes start at once may need more than one
	// attempt.
	for late := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		store, err := redisstore.Open(context.Background(),
			redisstore.Deployment{Option: option, TTL: ttl})
		if !errors.Is(err, renewer.ErrUnavailable) || time.Now().After(late) {
			return store, err
		}
	}
}

func (m *keeperMutex) lock(ctx context.Context) (err error) {
	m.lease, err = m.keeper.Acquire(ctx, m.request)
	return err
}

func (m *keeperMutex) unlock(ctx context.Context) error { return m.lease.Release(ctx) }

type handMutex struct {
	client rueidis.Client
	key    string
}

// handToken stands for one that a user would have to draw for each lock.
var handToken = strings.Repeat("-", 22)

var handFree = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

func handWritten(option rueidis.ClientOption) (library, error) {
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return library{}, err
	}
	return library{mutex: func(name string) mutex {
		return handMutex{client, "hand:" + name}
	}, close: client.Close}, nil
}

// lock does not wait: who writes this by hand polls.
func (m handMutex) lock(ctx context.Context) error {
	return m.client.Do(ctx, m.client.B().Set().Key(m.key).Value(handToken).Nx().Px(ttl).Build()).
		Error()
}

func (m handMutex) unlock(ctx context.Context) error {
	return sure(handFree.Exec(ctx, m.client, []string{m.key}, []string{handToken}).AsBool())
}

func sure(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("it was not ours")
	}
	return err
}

type lockerMutex struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func rueidisLock(option rueidis.ClientOption) (library, error) {
	l, err := newLocker(option)
	if err != nil {
		return library{}, err
	}
	return library{mutex: func(name string) mutex {
		return &lockerMutex{locker: l, name: name}
	}, close: l.Close}, nil
}

// newLocker has one key a lock; tracking without its own invalidations; and a
// second in place of 20 ms for a request, so that a busy machine costs it no
// lock.
func newLocker(option rueidis.ClientOption) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyValidity: ttl, KeyMajority: 1, NoLoopTracking: true,
		TryNextAfter: time.Second,
	})
}

func (m *lockerMutex) lock(ctx context.Context) (err error) {
	_, m.cancel, err = m.locker.WithContext(ctx, m.name)
	return err
}

func (m *lockerMutex) unlock(context.Context) error {
	m.cancel()
	return nil
}

// redsyncMutex tries for as long as it may; its delays of 50 to 250 ms are its
// defaults.
type redsyncMutex struct{ *redsync.Mutex }

func redsyncOnRueidis(option rueidis.ClientOption) (library, error) {
	client, err := rueidis.NewClient(option)
	if err != nil {
		return library{}, err
	}
	sync := redsync.New(syncrueidis.NewPool(rueidiscompat.NewAdapter(client)))
	return library{mutex: func(name string) mutex {
		return redsyncMutex{sync.NewMutex(name, redsync.WithExpiry(ttl),
			redsync.WithTries(math.MaxInt32))}
	}, close: client.Close}, nil
}

func (m redsyncMutex) lock(ctx context.Context) error   { return m.LockContext(ctx) }
func (m redsyncMutex) unlock(ctx context.Context) error { return sure(m.UnlockContext(ctx)) }

type redislockMutex struct {
	client *bsm.Client
	name   string
	held   *bsm.Lock
}

func bsmRedislock(option rueidis.ClientOption) (library, error) {
	client := redis.NewClient(&redis.Options{Addr: option.InitAddress[0]})
	locks := bsm.New(client)
	return library{mutex: func(name string) mutex {
		return &redislockMutex{client: locks, name: name}
	}, close: func() { _ = client.Close() }}, nil
}

// lock tries each 100 ms, as its documentation shows. Without a deadline it
// would wait for one TTL.
func (m *redislockMutex) lock(ctx context.Context) (err error) {
	m.held, err = m.client.Obtain(ctx, m.name, ttl,
		&bsm.Options{RetryStrategy: bsm.LinearBackoff(100 * time.Millisecond)})
	return err
}

func (m *redislockMutex) unlock(ctx context.Context) error { return m.held.Release(ctx) }
