package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// slotsOf makes the mutex of a limit of ours.
func slotsOf(keeper *renewer.Keeper, name string, n int) mutex {
	limit := func() int { return n }
	return &keeperMutex{keeper: keeper, request: renewer.Request{Name: name, Limit: limit}}
}

// doMutex makes a whole call each time that it is locked.
type doMutex struct {
	keeper *renewer.Keeper
	name   string
	slots  []int
}

func nothing(context.Context) (struct{}, error) { return struct{}{}, nil }

func (m *doMutex) lock(ctx context.Context) (err error) {
	if len(m.slots) == 1 {
		_, err = lockmw.Do(ctx, m.keeper, lockmw.Limit(m.name, m.slots[0]), nothing)
		return err
	}
	both := lockmw.All(lockmw.Limit(m.name, m.slots[0]), lockmw.Limit("all", m.slots[1]))
	_, err = lockmw.Do(ctx, m.keeper, both, nothing)
	return err
}

func (m *doMutex) unlock(context.Context) error { return nil }

func oursByDo(option rueidis.ClientOption) (library, error) {
	keeper, closeAll, err := newKeeper(option, ttl)
	return library{close: closeAll, limit: func(name, _ string, slots []int) mutex {
		return &doMutex{keeper, name, slots}
	}}, err
}

// semaphore is what a user can write, as scripts. All times are the client's,
// which saves a call of TIME, and is right only as long as all clients' clocks
// agree.
type semaphore struct {
	client    rueidis.Client
	of        *semaphoreScripts
	keys      []string
	member, n string
}

type semaphoreScripts struct{ take, free *rueidis.Lua }

var semaphores = map[string]*semaphoreScripts{
	// Who has a slot, by when its time is over.
	sortedAs: {rueidis.NewLuaScript(`
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call('ZADD', KEYS[1], ARGV[4], ARGV[1])`), nil},
	// It leaks a slot with each process that dies, until nobody has asked for a
	// TTL.
	counted: {rueidis.NewLuaScript(`
if redis.call('INCR', KEYS[1]) > tonumber(ARGV[2]) then redis.call('DECR', KEYS[1]) return 0 end
redis.call('EXPIRE', KEYS[1], 10)
return 1`), rueidis.NewLuaScript(`redis.call('DECR', KEYS[1]) return 1`)},
	// A permit that expires, as redisson has them: how many are left in a
	// number, which a set of those that are lent, by when, is added to again;
	// and a message for those who wait.
	expiring: {rueidis.NewLuaScript(`
local over = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[3], 'LIMIT', 0, 100)
if #over > 0 then
	redis.call('ZREM', KEYS[2], unpack(over))
	redis.call('INCRBY', KEYS[1], #over)
end
local left = redis.call('GET', KEYS[1])
if not left then
	left = ARGV[2]
	redis.call('SET', KEYS[1], left)
end
if tonumber(left) < 1 then return 0 end
redis.call('DECRBY', KEYS[1], 1)
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
return 1`), rueidis.NewLuaScript(`
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('PUBLISH', KEYS[3], redis.call('INCRBY', KEYS[1], 1))
return 1`)},
}

func semaphoreByHand(of *semaphoreScripts) func(rueidis.ClientOption) (library, error) {
	return func(option rueidis.ClientOption) (library, error) {
		option.DisableCache = true
		client, err := rueidis.NewClient(option)
		if err != nil {
			return library{}, err
		}
		return library{close: client.Close, limit: func(name, id string, slots []int) mutex {
			key := "hand:{" + name + "}"
			return &semaphore{
				client: client, of: of, keys: []string{key, key + ":lent", key + ":freed"},
				member: strings.Repeat("-", max(22-len(id), 0)) + id, n: strconv.Itoa(slots[0]),
			}
		}}, nil
	}
}

func (m *semaphore) lock(ctx context.Context) error {
	now := time.Now()
	ok, err := m.of.take.Exec(ctx, m.client, m.keys, []string{
		m.member, m.n, strconv.FormatInt(now.UnixMicro(), 10),
		strconv.FormatInt(now.Add(ttl).UnixMicro(), 10),
	}).AsBool()
	if !ok && err == nil {
		return errors.New("it is full")
	}
	return err
}

func (m *semaphore) unlock(ctx context.Context) error {
	if m.of.free == nil {
		return sure(m.client.Do(ctx, m.client.B().Zrem().Key(m.keys[0]).Member(m.member).Build()).
			AsBool())
	}
	return sure(m.of.free.Exec(ctx, m.client, m.keys, []string{m.member}).AsBool())
}
