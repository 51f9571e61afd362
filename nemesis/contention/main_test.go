package contention_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon   = 20 * time.Second // bounds what happens in a moment
	atOnce = 3 * time.Second  // bounds what nobody waits for
	tick   = 10 * time.Millisecond
	ttl    = 8 * time.Second
)

// outcome is what becomes of an operation, in words that suit every adapter.
type outcome string

const (
	done outcome = "done"
	// another caller has the lock, for as long as this one would wait
	busy        outcome = "busy"
	full        outcome = "full"        // as many have the limit as may
	unavailable outcome = "unavailable" // the store can't be asked
	lost        outcome = "lost"
	broken      outcome = "broken" // by a panic
	failed      outcome = "failed" // by an error of the work's own
	cancelled   outcome = "cancelled"
	replaced    outcome = "replaced" // by a newer call
	badKey      outcome = "bad key"
)

// work is the operation. It gets a context and knows nothing of the lock.
type work func(ctx context.Context) error

// caller has an adapter's framework run the work under a key, and
// returns what came back, with the words that were used.
type caller func(ctx context.Context, key string) (outcome, string)

// What stands for a wait where the newest call wins, or waits as the only one.
const (
	newestWins  time.Duration = -1
	newestWaits time.Duration = -2
)

// adapter puts work behind one framework. A wait of 0 refuses.
type adapter struct {
	name string
	open func(t *testing.T, k *renewer.Keeper, wait time.Duration, do work) caller
}

var adapters = []adapter{
	{"asynq", openAsynq},
	{"http", openHTTP},
	{"grpc", openGRPC},
}

// scene is one adapter's turn in a row of the table.
type scene struct {
	t       *testing.T
	adapter string
	redis   *redistest.Server
	keeper  *renewer.Keeper // the adapter's
	other   *renewer.Keeper // another process's
	runs    atomic.Int64
	open    func(wait time.Duration, do work) caller // of the adapter's process
	openOn  func(k *renewer.Keeper, wait time.Duration, do work) caller
}

// each runs a row with every adapter, and sees to it that no lock is left behind.
func each(t *testing.T, row func(s *scene)) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s := &scene{t: t, adapter: a.name, redis: redistest.Start(t)}
			s.keeper, s.other = s.newKeeper(nodeMark+"here"), s.newKeeper(nodeMark+"there")
			counted := func(do work) work {
				return func(ctx context.Context) error {
					s.runs.Add(1)
					return do(ctx)
				}
			}
			s.openOn = func(k *renewer.Keeper, wait time.Duration, do work) caller {
				return a.open(t, k, wait, counted(do))
			}
			s.open = func(wait time.Duration, do work) caller { return s.openOn(s.keeper, wait, do) }
			row(s)
			s.nothingIsLeft()
		})
	}
}

// newKeeper makes a keeper, with a client of its own, as a process has one.
func (s *scene) newKeeper(node string) *renewer.Keeper {
	return kit.Start(s.t, s.redis.ClientOption(), renewer.Config{TTL: ttl, Node: node}).Keeper
}

// holds has another process take the lock, until the function that it returns is called.
func (s *scene) holds(key string) (release func()) {
	l, err := s.other.Acquire(s.t.Context(), renewer.Request{Name: key, MaxWait: soon})
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, l.Release(context.Background())) }
}

// free requires that key is free.
func (s *scene) free(key string) {
	l, err := s.other.Acquire(s.t.Context(), renewer.Request{Name: key, Try: true})
	require.NoError(s.t, err)
	require.NoError(s.t, l.Release(s.t.Context()))
}

// lockOf is the name of the lock for a caller's key: of several if it is made of several, of a limit
// of n if it ends with "/n", and with a rank of n if it ends with "#n". Of one that ends with "?" it
// does not know it.
func lockOf(key string) lockmw.Set {
	if strings.HasSuffix(key, "?") {
		return lockmw.Invalid(errors.New("no account for " + key + innerKey))
	}
	if name, number, ranked := strings.Cut(key, "#"); ranked {
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			return lockmw.Ranked(name, n)
		}
	}
	if strings.Contains(key, "+") {
		var names []lockmw.Set
		for one := range strings.SplitSeq(key, "+") {
			names = append(names, lockOf(one))
		}
		return lockmw.All(names...)
	}
	if name, number, limit := strings.Cut(key, "/"); limit {
		n, err := strconv.Atoi(number)
		if err == nil {
			return lockmw.Limit(name, n)
		}
	}
	return lockmw.All(key)
}

// nothingIsLeft waits until no lock is on the server. (What was asked of a server that was
// stopped may take effect later, and is then cleaned up.) The mark of tokens, records, what
// processes tell of themselves, and which call was the newest stay, the last two for a minute, or a
// day if it had a rank.
func (s *scene) nothingIsLeft() {
	s.t.Helper()
	var keys []string
	require.Eventually(s.t, func() bool {
		keys = nil
		all, err := s.redis.Do("KEYS", redisstore.DefaultPrefix+"*").AsStrSlice()
		require.NoError(s.t, err)
		for _, key := range all {
			stays := strings.Contains(key, "}:mark") || strings.HasSuffix(key, ":record") ||
				strings.HasSuffix(key, "}:process") || strings.HasSuffix(key, "}:newest") ||
				strings.HasSuffix(key, "}:begun")
			if !stays {
				keys = append(keys, key)
			}
		}
		return len(keys) == 0
	}, ttl, tick, "left: %q", keys)
}

// nodeMark is in the names of all nodes.
const nodeMark = "node-"

// leaksNothing sees to it that a remote caller is not told the key, nor that of a lock within, nor
// who has it.
func leaksNothing(t *testing.T, key, words string) {
	for _, secret := range []string{innerKey, nodeMark, fmt.Sprint("pid ", os.Getpid())} {
		assert.NotContains(t, words, secret)
	}
	if key != "" {
		assert.NotContains(t, words, key[:min(len(key), 5)])
	}
}

// ofALock reports whether the work returns the error of a lock of its own, which a handler passes
// on as its adapter wants it.
func ofALock(err error) bool {
	_, refused := errors.AsType[*renewer.Error](err)
	return refused || errors.Is(err, renewer.ErrLost)
}

// result is what a call gave.
type result struct {
	outcome outcome
	words   string
}

// start makes a call in the background.
func start(ctx context.Context, call caller, key string) <-chan result {
	c := make(chan result, 1)
	go func() {
		o, words := call(ctx, key)
		c <- result{o, words}
	}()
	return c
}

func (s *scene) await(c <-chan result) result {
	s.t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(soon):
		require.Fail(s.t, "the call does not return")
		return result{}
	}
}
