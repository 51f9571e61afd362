package refusal_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// answered is an error as rueidis makes it of a server's answer.
func answered(t testing.TB, s string) error {
	t.Helper()
	m := redisreply.Fault(s).Message(t)
	return m.Error()
}

// wrap is what an answer of the server becomes for a store on one server, or on
// a cluster.
func wrap(cluster bool, op string, err error) error {
	reader := refusal.Reader{Prefix: "lockbeat:", Cluster: cluster, Astray: func() {}}
	return reader.Wrap(op, err)
}

// definite reports whether a new store would refuse a server that answers with
// text.
func definite(text string) bool { return (&refusal.Reader{}).Definite(text) }

// texts as servers word them, Redis 6.2's wrapping of errors inside scripts
// included.
var (
	rejectedTexts = []string{
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"NOPERM this user has no permissions to access one of the keys used as arguments",
		"ERR The user executing the script can't run this command or subcommand script: 16a2, on " +
			"@user_script:4.",
		"ERR The user executing the script can't access at least one of the keys mentioned in " +
			"the command arguments",
		"NOPERM ACL failure in script: User locks has no permissions to run the 'get' command",
		"ERR ACL failure in script: User locks has no permissions to run the 'get' command",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR Error running script (call to f_16a2): @user_script:4: WRONGTYPE Operation against " +
			"a key holding the wrong kind of value",
		"ERR Error running script (call to f_16a2): @user_script:4: @user_script: 4: -NOPERM " +
			"this user has no permissions",
		"ERR unknown command 'EVALSHA', with args beginning with: 'abc' '2'",
		"ERR Unknown Redis command called from script",
		"LOCKBEAT the fence counter lockbeat:{a}:fence is no number",
		"MOVED 3999 127.0.0.1:6381",
		"CROSSSLOT Keys in request don't hash to the same slot",
	}
	loginTexts = []string{
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"DENIED Redis is running in protected mode",
		"ERR AUTH <password> called without any password configured for the default user.",
	}
	overloadedTexts = []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"ERR Error running script (call to f_16a2): @user_script:9: @user_script: 9: -OOM " +
			"command not allowed when used memory > 'maxmemory'.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist " +
			"to disk.",
	}
	// notReadyTexts pass by themselves.
	notReadyTexts = []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_16a2): @user_script:4: @user_script: 4: -READONLY " +
			"You can't write against a read only replica.",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"NOREPLICAS Not enough good replicas to write.",
	}
	// passingTexts may do so, and are those of a server that is up.
	passingTexts = []string{
		"Script attempted to access a non local key in a cluster node script: c9e5, on " +
			"@user_script:37.",
		"ERR Error running script (call to f_16a2): @user_script:37: @user_script: 37: Lua " +
			"script attempted to access a non local key in a cluster node",
		"ERR Attempted to access a non local key in a cluster node script: on @user_script:37.",
		"NOSCRIPT No matching script. Please use EVAL.",
		"ERR max number of clients reached",
		"ERR something new",
		"",
	}
)

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	for _, s := range rejectedTexts {
		err := wrap(false, "acquire", answered(t, s))
		require.ErrorIs(t, err, renewer.ErrRejected, s)
		assert.True(t, definite(s), s)
		assert.True(t, strings.HasPrefix(err.Error(), "redisstore: acquire: "), err)
	}
	for _, s := range loginTexts {
		assert.NotErrorIs(t, wrap(false, "acquire", answered(t, s)),
			renewer.ErrRejected, "%s: a password may be changing", s)
		assert.ErrorIs(t, wrap(false, "new", answered(t, s)), renewer.ErrRejected)
		assert.True(t, definite(s), s)
	}
	for _, s := range overloadedTexts {
		err := wrap(false, "acquire", answered(t, s))
		require.ErrorIs(t, err, renewer.ErrOverloaded, s)
		require.NotErrorIs(t, err, renewer.ErrRejected, s)
		assert.False(t, definite(s), s)
	}
	for _, s := range slices.Concat(notReadyTexts, passingTexts) {
		err := wrap(false, "renew", answered(t, s))
		require.NotErrorIs(t, err, renewer.ErrRejected, s)
		require.NotErrorIs(t, err, renewer.ErrOverloaded, s)
		var cause *rueidis.RedisError
		assert.ErrorAs(t, err, &cause, "%q: the answer stays in the chain", s)
		assert.Equal(t, strings.Contains(s, "TRYAGAIN") || strings.Contains(s, "non local key"),
			strings.Contains(err.Error(), "is being moved"), s)
		assert.Equal(t, strings.Contains(s, "READONLY"), definite(s),
			"%q: only a replica is refused at the start", s)
	}
	for _, cause := range []error{
		context.Canceled, context.DeadlineExceeded, io.EOF,
		rueidis.ErrClosing, rueidis.Nil,
	} {
		err := wrap(false, "renew", cause)
		assert.ErrorIs(t, err, cause)
		assert.NotErrorIs(t, err, renewer.ErrRejected)
	}
	t.Run("in a cluster a moved slot will be found", func(t *testing.T) {
		t.Parallel()
		assert.NotErrorIs(t, wrap(true, "renew",
			answered(t, "MOVED 3999 127.0.0.1:6381")), renewer.ErrRejected)
	})
}

// A new store asks again a server that is starting, busy, full, or in the
// middle of a fail-over.
func TestNotReady(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(overloadedTexts, notReadyTexts) {
		assert.True(t, (&refusal.Reader{}).NotReady(s), s)
	}
	for _, s := range slices.Concat(rejectedTexts, loginTexts, passingTexts) {
		assert.False(t, (&refusal.Reader{}).NotReady(s), "%q", s)
	}
}

func TestErrorsShowNoPasswords(t *testing.T) {
	t.Parallel()
	err := wrap(false, "acquire",
		answered(t, "ERR unknown command `AUTH`, with args beginning with: `locks` `hunter2`, "))
	require.ErrorIs(t, err, renewer.ErrRejected)
	assert.NotContains(t, redisreply.Chain(err), "hunter2")
}

func TestErrorsAreBoundedAndPrintable(t *testing.T) {
	t.Parallel()
	answer := "ERR \x1b[31m\r\n\xff" + strings.Repeat("é", 10_000)
	s := wrap(false, "renew", answered(t, answer)).Error()
	assert.Less(t, len(s), 500)
	assert.True(t, strings.HasPrefix(s, "redisstore: renew:  [31m  ?é"), s)
	assert.False(t, strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 }))
}

// The names of locks that our scripts' errors have in them are for the program,
// not for logs.
func TestErrorsCanBeShownWithoutNames(t *testing.T) {
	t.Parallel()
	err := wrap(false, "acquire",
		answered(t, "LOCKBEAT the value of lockbeat:{mail:jane%7Dx y} is damaged; delete the key"))
	require.ErrorContains(t, err, "jane")
	require.Equal(t, "redisstore: acquire: LOCKBEAT the value of lockbeat:{…} is damaged; "+
		"delete the key", renewer.ErrorText(fmt.Errorf("%w", err)))
}

// A long name pushed the brace behind it out of an error's bounded text, which
// was then shown whole.
func TestLongNamesCanBeHiddenToo(t *testing.T) {
	t.Parallel()
	for _, filler := range []string{"x", "{", "}", "%", "\x00", "é"} {
		for _, n := range []int{100, 360, 480, store.MaxName} {
			secret := "alice.secret@example.org/"
			name := secret + strings.Repeat(filler, (n-len(secret))/len(filler))
			key := schema.LockKey("lockbeat:", name)
			err := wrap(false, "acquire",
				answered(t, "LOCKBEAT the value of "+key+":fence is damaged; delete the key"))
			require.ErrorContains(t, err, secret)
			require.Less(t, len(err.Error()), 500)
			require.Equal(t, "redisstore: acquire: LOCKBEAT the value of lockbeat:{…}:fence is "+
				"damaged; delete the key", renewer.ErrorText(err))
			err = wrap(false, "acquire",
				answered(t, "CLUSTERDOWN the server cut this short: "+key[:len(key)-1]))
			require.Equal(t, "redisstore: acquire: CLUSTERDOWN the server cut this short: lockbeat:{…}",
				renewer.ErrorText(err))
		}
	}
}
