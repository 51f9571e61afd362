// Package libraries_test has our locks beside other people's libraries: routers, interceptors,
// instrumentations, task queues; and libraries of locks, with the code of docs/moving.md, which it
// proves: processes that use another library alone, that and Lockbeat, or Lockbeat alone, each
// beside the next.
package libraries_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

const (
	childEnv = "MOVING_PART"
	lockName = "order:42"
	// No lock lapses because the machine is busy.
	ttl = time.Minute
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		var p part
		if err := errors.Join(json.Unmarshal([]byte(text), &p), p.play()); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type (
	work func(context.Context) error
	// locks runs work under a lock.
	locks func(context.Context, work) error
)

// part is what a process is told.
type part struct {
	Library string // the old one
	Step    string // of the move: "old", "both" or "new"
	Addr    string // of Redis
	Inside  string // a file that exists while a process has the lock
	Stay    bool   // the process keeps the lock that it gets
}

// play takes the lock again and again until the input ends. What happens is printed.
func (p part) play() error {
	keeper, closeKeeper, err := newKeeper(p.Addr)
	if err != nil {
		return err
	}
	defer closeKeeper()
	old, under, err := open[p.Library](p.Addr)
	if err != nil {
		return err
	}
	take := map[string]locks{
		"old":  old,
		"both": func(ctx context.Context, w work) error { return locked(ctx, keeper, under, w) },
		"new":  func(ctx context.Context, w work) error { return locked(ctx, keeper, nil, w) },
	}[p.Step]
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println("asks")
	for ctx.Err() == nil {
		if err := take(ctx, p.work); err != nil && ctx.Err() == nil {
			fmt.Println("failed", err)
		}
		select {
		case <-time.After(rand.N(20 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
	return nil
}

// locked takes Lockbeat's lock, and the old one inside of it.
func locked(ctx context.Context, keeper *renewer.Keeper, under locks, w work) error {
	err := lockmw.Run(ctx, keeper, lockName, func(ctx context.Context) error {
		if under == nil {
			return w(ctx)
		}
		return under(ctx, w)
	}, lockmw.Wait(ttl))
	return err
}

// work makes a file that must not exist, and removes it.
func (p part) work(ctx context.Context) error {
	file, err := os.OpenFile(p.Inside, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		fmt.Println("overlap", err)
		return err
	}
	fmt.Println("in")
	stay := time.Millisecond
	if p.Stay {
		stay = math.MaxInt64
	}
	select {
	case <-time.After(stay):
	case <-ctx.Done():
	}
	return errors.Join(file.Close(), os.Remove(p.Inside))
}

func newKeeper(addr string) (keeper *renewer.Keeper, closeKeeper func(), err error) {
	deployment, err := redisstore.FromURL("redis://" + addr)
	if err != nil {
		return nil, nil, err
	}
	deployment.TTL = ttl
	store, err := redisstore.Open(context.Background(), deployment)
	if err != nil {
		return nil, nil, err
	}
	// The test ends the TTL of a killed process itself, which a waiter sees when it polls.
	keeper, err = renewer.New(store, renewer.Config{TTL: ttl, Poll: 50 * time.Millisecond})
	return keeper, func() {
		_ = keeper.Shutdown(context.Background()) // each lock is free
		store.Close()
	}, err
}

// open connects to an old library. old is what processes did before the move, and under what they
// do inside of Lockbeat's lock.
var open = map[string]func(addr string) (old, under locks, err error){
	"redsync": func(addr string) (old, under locks, err error) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		sync := redsync.New(goredis.NewPool(client))
		mutex := func() *redsync.Mutex {
			return sync.NewMutex(lockName, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt),
				redsync.WithRetryDelay(5*time.Millisecond))
		}
		old = func(ctx context.Context, w work) error {
			m := mutex()
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			defer func() { _, _ = m.Unlock() }()
			return w(ctx)
		}
		return old, func(ctx context.Context, w work) error {
			return underRedsync(ctx, mutex(), ttl, w)
		}, nil
	},
	"redislock": func(addr string) (old, under locks, err error) {
		client := redislock.New(redis.NewClient(&redis.Options{Addr: addr}))
		old = func(ctx context.Context, w work) error {
			lock, err := client.Obtain(ctx, lockName, ttl,
				&redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)})
			if err != nil {
				return err
			}
			defer func() { _ = lock.Release(context.Background()) }()
			return w(ctx)
		}
		return old, func(ctx context.Context, w work) error {
			return underRedislock(ctx, client, lockName, ttl, w)
		}, nil
	},
	"rueidislock": func(addr string) (old, under locks, err error) {
		// An old process polls here: those that are to be woken may never hear of a free lock.
		polling, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true},
			KeyValidity:  ttl, TryNextAfter: 100 * time.Millisecond,
		})
		if err != nil {
			return nil, nil, err
		}
		locker, err := newLocker(addr)
		if err != nil {
			return nil, nil, err
		}
		old = func(ctx context.Context, w work) error {
			ctx, cancel, err := polling.WithContext(ctx, lockName)
			if err != nil {
				return err
			}
			defer cancel()
			return w(ctx)
		}
		return old, func(ctx context.Context, w work) error {
			return underRueidislock(ctx, locker, lockName, w)
		}, nil
	},
}

func newLocker(addr string) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:  ttl, ExtendInterval: 100 * time.Millisecond,
		NoLoopTracking: true, TryNextAfter: time.Second,
	})
}

// process is what the test has of one.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	name  string
}

func start(t *testing.T, p part) *process {
	t.Helper()
	env, err := json.Marshal(p)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(env)), os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &process{t, cmd, stdin, bufio.NewScanner(stdout), p.Library + ", " + p.Step}
}

// hears reads what the process prints up to n lines of this text.
func (p *process) hears(text string, n int) {
	for n > 0 && p.lines.Scan() {
		line := p.lines.Text()
		switch {
		case line == text:
			n--
		case strings.HasPrefix(line, "overlap"), strings.HasPrefix(line, "error"):
			assert.Fail(p.t, line, p.name)
		case line != "in" && line != "asks":
			p.t.Log(p.name, line) // it asks again
		}
	}
	assert.Zero(p.t, n, "%s ended too early", p.name)
}

// stop ends the process as a deploy does.
func (p *process) stop() {
	_ = p.stdin.Close()
	for p.lines.Scan() {
		assert.NotContains(p.t, p.lines.Text(), "overlap", p.name)
	}
	assert.NoError(p.t, p.cmd.Wait(), p.name)
}

// kill ends the process at once.
func (p *process) kill() {
	require.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // says that it was killed
}
