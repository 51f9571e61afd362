//go:build unix

package faulttest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// key is the key of a lock with a plain name.
func key(name string) string { return "lockbeat:{" + name + "}" }

// lock is what the server itself knows of a lock.
type lock struct {
	value   string    // "" if the key does not exist
	expires time.Time // by the server's wall clock, which is the test's
}

// rounded is how far two looks at a key that nobody touches may be apart: TIME tells of the instant
// at which it was called, and PTTL counts from a clock that Redis keeps for the whole of a script,
// or reads anew; both are whole milliseconds.
const rounded = 10 * time.Millisecond

// look asks the server, past any proxy, in one script so that the parts fit together.
const lookScript = `local t = redis.call('TIME')
return {redis.call('GET', KEYS[1]) or '', t[1], t[2], redis.call('PTTL', KEYS[1])}`

func look(server *redistest.Server, name string) (lock, error) {
	parts, err := server.Do("EVAL", lookScript, "1", key(name)).ToArray()
	if err != nil {
		return lock{}, fmt.Errorf("look at %s: %w", name, err)
	}
	value, err := parts[0].ToString()
	if err != nil {
		return lock{}, err
	}
	var n [3]int64
	for i := range n {
		if n[i], err = parts[i+1].AsInt64(); err != nil {
			return lock{}, err
		}
	}
	l := lock{value: strings.TrimSuffix(value, "\n+")} // whether it is waited for
	if value != "" {
		// Milliseconds rounded down: the key expires at this instant at the earliest.
		now := time.UnixMilli(n[0]*1000 + n[1]/1000)
		l.expires = now.Add(time.Duration(n[2]) * time.Millisecond)
	}
	return l, nil
}

func mustLook(t *testing.T, server *redistest.Server, name string) lock {
	t.Helper()
	l, err := look(server, name)
	require.NoError(t, err)
	return l
}

// mustDo sends a command that must succeed.
func mustDo(t *testing.T, server *redistest.Server, args ...string) {
	t.Helper()
	err := server.Do(args...).Error()
	require.False(t, err != nil && !rueidis.IsRedisNil(err), "%v: %v", args, err)
}

// gone polls until the key of a lock is gone and returns how long
// after an instant that was, at the most.
func gone(t *testing.T, server *redistest.Server, name string, since time.Time) time.Duration {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		l := mustLook(t, server, name)
		took := time.Since(since)
		if l.value == "" {
			return took
		}
		require.Less(t, took, patience, "key %s is still there: %q, until %v", key(name), l.value,
			l.expires)
		<-poll.C
	}
}

// lapses polls until the key of a lock is gone, whose TTL never ends after an instant.
func lapses(t *testing.T, server *redistest.Server, name string, by time.Time) {
	t.Helper()
	for l := mustLook(t, server, name); l.value != ""; l = mustLook(t, server, name) {
		require.False(t, l.expires.After(by), "%v is after %v", l.expires, by)
		pass(time.Millisecond)
	}
}

// presentSoon polls until the key of a lock is there.
func presentSoon(t *testing.T, server *redistest.Server, name string) lock {
	t.Helper()
	var l lock
	require.Eventually(t, func() bool {
		var err error
		l, err = look(server, name)
		return err == nil && l.value != ""
	}, patience, time.Millisecond, "key %s never came", key(name))
	return l
}
