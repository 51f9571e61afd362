package kit

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Key is the key of a lock with a plain name.
func Key(name string) string { return "lockbeat:{" + name + "}" }

// Lock is what the server itself knows of a lock.
type Lock struct {
	Value   string    // "" if the key does not exist
	Expires time.Time // at the earliest, by the server's wall clock, which is the test's
}

// Rounded is how far two looks at a key that nobody touches may be apart: TIME tells of the instant
// at which it was called, and PTTL counts from a clock that Redis keeps for the whole of a script,
// or reads anew; both are whole milliseconds.
const Rounded = 10 * time.Millisecond

// Look asks the server, past any proxy, in one script so that the parts fit together.
func Look(t testing.TB, server *redistest.Server, name string) Lock {
	t.Helper()
	const script = `local t = redis.call('TIME')
return {t[1] * 1000 + math.floor(t[2] / 1000), redis.call('PTTL', KEYS[1])}`
	value, err := server.Do("GET", Key(name)).ToString()
	if rueidis.IsRedisNil(err) {
		return Lock{}
	}
	require.NoError(t, err)
	at, err := server.Do("EVAL", script, "1", Key(name)).AsIntSlice()
	require.NoError(t, err)
	if at[1] < 0 {
		return Lock{} // it has lapsed in between
	}
	// What is behind the value says whether the lock is waited for.
	return Lock{strings.TrimSuffix(value, "\n+"), time.UnixMilli(at[0] + at[1])}
}

// Do sends a command that must succeed.
func Do(t testing.TB, server *redistest.Server, args ...string) {
	t.Helper()
	if err := server.Do(args...).Error(); !rueidis.IsRedisNil(err) {
		require.NoError(t, err, args)
	}
}

// Gone waits until no process has a lock.
func Gone(t testing.TB, server *redistest.Server, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return Look(t, server, name).Value == ""
	}, Patience, 2*time.Millisecond, "%s is still held", name)
}

// LapsesBy waits until a lock's key is gone, and reports whether its TTL never ended after an
// instant.
func LapsesBy(t testing.TB, server *redistest.Server, name string, by time.Time) bool {
	t.Helper()
	for {
		l := Look(t, server, name)
		if l.Value == "" || l.Expires.After(by) {
			return l.Value == ""
		}
		<-time.After(time.Millisecond)
	}
}
