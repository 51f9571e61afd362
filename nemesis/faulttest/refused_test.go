package faulttest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// refusal is a server that answers, but with an error.
type refusal struct {
	begin, finish []string // commands
	says          string   // what the server's error has in it
	renews        bool     // renewals are let through all the same
	forever       bool     // until somebody changes the server: ErrRejected
}

// user is who the nodes are; the tests' own connection is the default user and keeps its rights.
const user = "locks"

func asUser(o *rueidis.ClientOption) { o.Username, o.Password = user, "secret" }

func rights(rules ...string) []string { return append([]string{"ACL", "SETUSER", user}, rules...) }

// An error from the server says nothing about who has a lock: a lease outlasts it, and no caller is
// told "held".
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	grant := rights("reset", "on", ">secret", "resetchannels", "~lockbeat:{*", "&lockbeat:{*", "+@all")
	for name, c := range map[string]refusal{
		"read-only": {
			says: "READONLY", begin: []string{"REPLICAOF", "127.0.0.1", "1"}, // where no server is
			finish: []string{"REPLICAOF", "NO", "ONE"},
		},
		"out of memory": {
			says: "OOM", begin: []string{"CONFIG", "SET", "maxmemory", "1"}, renews: true,
			finish: []string{"CONFIG", "SET", "maxmemory", "0"},
		},
		"scripts forbidden": {
			says: "NOPERM", begin: rights("-evalsha", "-eval"), finish: grant, forever: true,
		},
		"a script's command forbidden": {
			says: "pexpire", begin: rights("-pexpire", "-set"), finish: grant, forever: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			kit.Do(t, server, grant...)
			n := join(t, server, recoverConfig, asUser)
			lease := n.Acquire(t, "lock")
			n.Beats.Confirmed(t, 1)
			kit.Do(t, server, c.begin...)
			waiting := n.Seek("later")
			if c.forever {
				c.isTold(t, (<-waiting).Err)
			}
			if !c.renews {
				n.Beats.Await(t, 1, func(r renewer.Renewed) bool {
					return r.Failed > 0 && strings.Contains(r.Err.Error(), c.says)
				})
			}
			require.EventuallyWithT(t, func(t *assert.CollectT) { // the server may be too busy to answer
				_, err := n.Keeper.Acquire(context.Background(), renewer.Request{
					Name: "free", Try: true,
				})
				c.isTold(t, err)
			}, kit.Patience, recoverConfig.RequestTimeout)
			kit.Do(t, server, c.finish...)
			n.Beats.Confirmed(t, 2)
			require.NoError(t, lease.Err(), "the operation was disturbed")
			require.NoError(t, lease.Release(t.Context()))
			if !c.forever {
				got := <-waiting
				require.NoError(t, got.Err, "a waiter outlasts it too")
				require.NoError(t, got.Lease.Release(t.Context()))
			}
		})
	}
}

func (c refusal) isTold(t assert.TestingT, err error) {
	assert.ErrorIs(t, err, renewer.ErrUnavailable)
	assert.NotErrorIs(t, err, renewer.ErrBusy)
	assert.NotErrorIs(t, err, renewer.ErrLost)
	assert.ErrorContains(t, err, c.says)
	if c.forever {
		assert.ErrorIs(t, err, renewer.ErrRejected)
	} else {
		assert.NotErrorIs(t, err, renewer.ErrRejected)
	}
}
