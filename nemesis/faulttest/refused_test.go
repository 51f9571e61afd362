//go:build unix

package faulttest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// refusal is a server that answers, but with an error.
type refusal struct {
	name    string
	args    []string // of the server
	edit    []func(*rueidis.ClientOption)
	begin   func(t *testing.T, s *redistest.Server)
	finish  func(t *testing.T, s *redistest.Server)
	says    string // what the server's error has in it
	renews  bool   // renewals are let through all the same
	forever bool   // the answer stays the same until somebody changes the server: ErrRejected
}

// user is who the nodes are when rights are taken from them; the
// tests' own connection is the default user and keeps its own.
const user = "locks"

var asUser = []func(*rueidis.ClientOption){func(o *rueidis.ClientOption) {
	o.Username, o.Password = user, "secret"
}}

func grantUser(t *testing.T, s *redistest.Server) {
	t.Helper()
	mustDo(t, s, "ACL", "SETUSER", user, "reset", "on", ">secret", "resetchannels", "~lockbeat:{*",
		"&lockbeat:{*", "+@all")
}

func acl(rules ...string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) {
		t.Helper()
		mustDo(t, s, append([]string{"ACL", "SETUSER", user}, rules...)...)
	}
}

func command(args ...string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) { t.Helper(); mustDo(t, s, args...) }
}

func refusals() []refusal {
	// A port on which no master listens.
	nobody := []string{"REPLICAOF", "127.0.0.1", "1"}
	return []refusal{
		{
			name: "read-only", says: "READONLY",
			begin: command(nobody...), finish: command("REPLICAOF", "NO", "ONE"),
		},
		{
			name: "cut off from its master", says: "MASTERDOWN",
			args: []string{"--replica-serve-stale-data", "no"}, begin: command(nobody...),
			finish: command("REPLICAOF", "NO", "ONE"),
		},
		{
			name: "out of memory", says: "OOM", renews: true, // a renewal takes no memory
			begin:  command("CONFIG", "SET", "maxmemory", "1"),
			finish: command("CONFIG", "SET", "maxmemory", "0"),
		},
		{
			name: "scripts forbidden", says: "NOPERM", forever: true, edit: asUser,
			begin: acl("-evalsha", "-eval"), finish: grantUser,
		},
		{
			name: "a script's command forbidden", says: "pexpire", forever: true, edit: asUser,
			begin: acl("-pexpire", "-set"), finish: grantUser,
		},
		{
			name: "loading", says: "LOADING",
			args: []string{
				"--key-load-delay", "1000", "--loading-process-events-interval-bytes",
				"1024",
			},
			begin: beginLoading, finish: finishLoading,
		},
	}
}

// beginLoading restarts the server from a dump that it takes 15 s to read unless finishLoading is
// called, and returns when it reads it.
func beginLoading(t *testing.T, s *redistest.Server) {
	t.Helper()
	mustDo(t, s, "EVAL", "for i = 1, 15000 do redis.call('SET', 'ballast' .. i, string.rep('x', "+
		"64)) end", "0")
	mustDo(t, s, "SAVE")
	restarted := make(chan error, 1)
	go func() { restarted <- s.Restart() }() // returns when it has loaded everything
	t.Cleanup(func() { require.NoError(t, <-restarted) })
	require.Eventually(t, func() bool { return strings.HasPrefix(answer(s, "GET x"), "-LOADING") },
		patience, 2*time.Millisecond, "the server never said that it was loading")
}

func finishLoading(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Equal(t, "+OK\r\n", answer(s, "CONFIG SET key-load-delay 0"))
}

// answer is what the server answers on a connection of its own, as it is restarting, so that
// Server.Do can't be used; "" if it does not.
func answer(s *redistest.Server, command string) string {
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write([]byte(command + "\r\n"))
	text := make([]byte, 64)
	n, _ := conn.Read(text)
	return string(text[:n])
}

// An error from the server says nothing about who has a lock: a lease
// held outlasts it, and nobody is told "held".
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, c.args...)
			grantUser(t, server)
			n := join(t, server, recoverConfig, c.edit...)
			lease := n.acquire(t, "lock")
			n.beats.confirmed(t, 1)
			c.begin(t, server)

			assertUnavailable(t, c, tryFree(t, n))
			waiting := n.seek(t.Context(), "later", renewer.MaxWait(patience))
			if c.forever {
				assertUnavailable(t, c, (<-waiting).err)
			}
			if !c.renews {
				// the first may have had no answer in time
				n.beats.await(t, 1, func(r renewer.Renewed) bool {
					return r.Failed > 0 && strings.Contains(r.Err.Error(), c.says)
				})
			}
			c.finish(t, server)

			n.beats.confirmed(t, 2)
			require.NoError(t, context.Cause(lease.Context()), "the operation was disturbed")
			require.NoError(t, lease.Release(t.Context()))
			if !c.forever {
				got := <-waiting
				require.NoError(t, got.err, "a waiter outlasts it too")
				require.NoError(t, got.lease.Release(t.Context()))
			}
		})
	}
}

// tryFree asks for a lock that nobody has, and again if the server is too busy to answer at all.
func tryFree(t *testing.T, n *node) error {
	t.Helper()
	for {
		_, err := n.keeper.TryAcquire(t.Context(), "free")
		if !errors.Is(err, renewer.ErrUnavailable) ||
			!strings.Contains(err.Error(), "the store has not answered in time") {
			return err
		}
	}
}

func assertUnavailable(t *testing.T, c refusal, err error) {
	t.Helper()
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.NotErrorIs(t, err, renewer.ErrHeld)
	require.NotErrorIs(t, err, renewer.ErrLost)
	assert.ErrorContains(t, err, c.says)
	if c.forever {
		assert.ErrorIs(t, err, renewer.ErrRejected)
	} else {
		assert.NotErrorIs(t, err, renewer.ErrRejected)
	}
}
