package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// keep runs f with a keeper over a quorum of n scripted nodes.
func keep(t *testing.T, n int, f func(t *testing.T, k *renewer.Keeper, nodes []*script.Store)) {
	t.Helper()
	inBubble(t, n, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		k, err := renewer.New(s, renewer.Config{TTL: ttl, Log: renewer.Silent})
		require.NoError(t, err)
		f(t, k, nodes)
		for _, node := range nodes {
			node.Default(script.Release, script.Pass())
		}
		require.NoError(t, k.Shutdown(context.Background()))
		waitFor(time.Minute)
		assert.Zero(t, quorum.Known(s))
	})
}

// dead is what a node answers that has died: nothing, or a refusal.
var dead = map[string]script.Step{"hung": script.Hang(), "refused": script.Fail(errDown)}

func die(node *script.Store, how script.Step) {
	for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
		node.Default(op, how)
	}
}

func TestALeaseSurvivesAnyOneNode(t *testing.T) {
	t.Parallel()
	for name, how := range dead {
		for i := range 3 {
			t.Run(fmt.Sprint(name, " ", i+1), func(t *testing.T) {
				t.Parallel()
				keep(t, 3, func(t *testing.T, k *renewer.Keeper, nodes []*script.Store) {
					l, err := k.Acquire(t.Context(), renewer.Request{Name: "n"})
					require.NoError(t, err)
					synctest.Wait()
					die(nodes[i], how)
					waitFor(10 * time.Minute)
					require.True(t, l.Valid())
					assert.Greater(t, l.Remaining(), ttl/2)
					assert.Zero(t, took(func() { assert.NoError(t, l.Release(t.Context())) }))
					assert.Zero(t, took(func() {
						l, err = k.Acquire(t.Context(), renewer.Request{Name: "n"})
					}))
					require.NoError(t, err)
					assert.Zero(t, took(func() { assert.NoError(t, l.Release(t.Context())) }))
				})
			})
		}
	}
}

// When two of three die the operation hears of it while the third and
// the TTLs of the other two still keep everybody out.
func TestALeaseIsLostInTimeWhenTwoDie(t *testing.T) {
	t.Parallel()
	for name, how := range dead {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep(t, 3, func(t *testing.T, k *renewer.Keeper, nodes []*script.Store) {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "n"})
				require.NoError(t, err)
				waitFor(time.Minute)
				die(nodes[0], how)
				waitFor(time.Minute)
				die(nodes[2], how)
				<-l.Context().Done()
				var lost *renewer.LostError
				require.ErrorAs(t, context.Cause(l.Context()), &lost)
				assert.Equal(t, renewer.ReasonExpired, lost.Reason)
				assert.ErrorContains(t, lost.Err, "2 of 3 nodes gave no answer")
				assert.Equal(t, "-aa", held(nodes), "no other owner could have it yet")
				require.Error(t, l.Release(t.Context()))
			})
		})
	}
}

// held is "a" for each node that still has "n".
func held(nodes []*script.Store) (s string) {
	for _, node := range nodes {
		if node.Owner("n") == "" {
			s += "-"
		} else {
			s += "a"
		}
	}
	return s
}

// A waiter gets the lock at once when it is released, and when its
// holder's TTL is over, with a node dead.
func TestWaiters(t *testing.T) {
	t.Parallel()
	for name, how := range dead {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep(t, 3, func(t *testing.T, k *renewer.Keeper, nodes []*script.Store) {
				other, err := quorum.NewEngine([]store.Store{nodes[0], nodes[1], nodes[2]})
				require.NoError(t, err)
				die(nodes[1], how)
				require.Equal(t, store.StatusHeld, acquire(t.Context(), other, "z").Status)
				waitFor(time.Second)
				time.AfterFunc(3*time.Second, func() { release(context.Background(), other, "z") })
				var l *renewer.Lease
				d := took(func() { l, err = k.Acquire(t.Context(), renewer.Request{Name: "n"}) })
				require.NoError(t, err)
				assert.Equal(t, 3*time.Second, d)
				require.NoError(t, l.Release(t.Context()))

				require.Equal(t, store.StatusHeld, acquire(t.Context(), other, "y").Status)
				d = took(func() { l, err = k.Acquire(t.Context(), renewer.Request{Name: "n"}) })
				require.NoError(t, err)
				assert.InDelta(t, ttl, d, float64(20*time.Millisecond))
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}
