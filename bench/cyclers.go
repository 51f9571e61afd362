package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

const cycleTTL = 10 * time.Second

// Who takes and frees locks besides the libraries, by the names that the tables show. The first two
// are the floors: what a user can write by hand.
const (
	byHand       = "by hand"             // SET NX PX, and a script that compares and deletes
	ourScripts   = "our scripts by hand" // acquire.lua and release.lua by EVALSHA
	inBackground = "Lockbeat, ReleaseInBackground"
)

// The ways to connect by rueidis. For one caller the first is the fastest, for many one of the
// others, of which a library has the third and, as "", its own.
const (
	synchronous = "synchronous"   // a pool of connections, each for one request at a time
	pipelined   = "pipelined"     // shared connections, served by two goroutines of rueidis each
	gathered    = "MaxFlushDelay" // pipelined, with a pause after each write, so that more meet
)

// flushDelay is what the documentation of MaxFlushDelay advises.
const flushDelay = 20 * time.Microsecond

// waysOf are those that are tried for a contestant.
func waysOf(who string) []string {
	switch who {
	case byHand, ourScripts:
		return []string{synchronous, pipelined, gathered}
	case peer, redsyncRueidis:
		return []string{"", gathered}
	default:
		return []string{""}
	}
}

// handClient connects in one of these ways; "" is for rueidis' own settings, by which a connection
// is synchronous until two requests have met on it, and then pipelined for ever.
func handClient(addr, way string) (rueidis.Client, error) {
	option := rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
		DisableAutoPipelining: way == synchronous,
		AlwaysPipelining:      way == pipelined || way == gathered,
	}
	if way == gathered {
		option.MaxFlushDelay = flushDelay
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return client, nil
}

// A cycler takes and frees a lock, over and over.
type cycler struct {
	// worker makes one cycle for a goroutine of its own, on a key of its own.
	worker func(number int) (cycle func(context.Context) error)
	close  func()
}

func newCycler(ctx context.Context, s childSpec) (cycler, error) {
	switch s.Who {
	case byHand:
		return handCycler(s)
	case ourScripts:
		return rawCycler(ctx, s)
	case lockbeat:
		return keeperCycler(s, ownKey)
	case inBackground:
		return keeperCycler(s, newKeys)
	default:
		return contenderCycler(s)
	}
}

// compareAndDelete deletes KEYS[1] if it has the token ARGV[1].
const compareAndDelete = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

var handFree = rueidis.NewLuaScript(compareAndDelete)

func handCycler(s childSpec) (cycler, error) {
	client, err := handClient(s.Addr, s.Way)
	if err != nil {
		return cycler{}, err
	}
	return cycler{func(number int) func(context.Context) error {
		key, token := "hand:"+leaseName(number), strings.Repeat("-", 22)
		return func(ctx context.Context) error {
			err := client.Do(ctx, client.B().Set().Key(key).Value(token).Nx().
				Px(cycleTTL).Build()).Error()
			if err != nil {
				return fmt.Errorf("SET: %w", err)
			}
			freed, err := handFree.Exec(ctx, client, []string{key}, []string{token}).AsBool()
			if err == nil && !freed {
				err = errors.New("the key was another's")
			}
			return err
		}
	}, client.Close}, nil
}

func rawCycler(ctx context.Context, s childSpec) (cycler, error) {
	r, err := newRaw(ctx, s.Addr, s.Way, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{func(number int) func(context.Context) error {
		l := r.lock("floor:"+leaseName(number), number)
		return func(ctx context.Context) error {
			if err := r.acquire(ctx, &l); err != nil {
				return err
			}
			return r.release(ctx, &l)
		}
	}, r.client.Close}, nil
}

func keeperCycler(
	s childSpec, cycleOf func(*renewer.Keeper, string) func(context.Context) error,
) (cycler, error) {
	k, err := newKeeper(s.Addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{func(number int) func(context.Context) error {
		return cycleOf(k, leaseName(number))
	}, func() {
		_ = k.Shutdown(context.Background()) // every lease is released
	}}, nil
}

func ownKey(k *renewer.Keeper, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := k.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

// newKeys takes another name each time: a release in the background holds up the next of its name.
func newKeys(k *renewer.Keeper, name string) func(context.Context) error {
	cycles := 0
	return func(ctx context.Context) error {
		cycles++
		l, err := k.Acquire(ctx, name+":"+strconv.Itoa(cycles))
		if err != nil {
			return err
		}
		return l.ReleaseInBackground(ctx)
	}
}

func contenderCycler(s childSpec) (cycler, error) {
	d := deployment{addr: s.Addr}
	if s.Way == gathered {
		d.flushDelay = flushDelay
	}
	c, err := newContender(s.Who, d, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{func(number int) func(context.Context) error {
		m := c.mutex(s.Who + ":" + leaseName(number))
		return func(ctx context.Context) error {
			if _, err := m.lock(ctx); err != nil {
				return err
			}
			return m.unlock(ctx)
		}
	}, c.close}, nil
}
