package quorum_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// logged returns a logger, and what it has been told.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func TestSameQuorumInAnyOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, all := scripted(3)
		a, err := quorum.NewEngine(all, quorum.Names("a", "b", "c"))
		require.NoError(t, err)
		b, err := quorum.NewEngine([]store.Store{nodes[2], nodes[0], nodes[1]},
			quorum.Names("c", "a", "b"))
		require.NoError(t, err)
		for range 10 {
			waitFor(quorum.MembershipEvery)
			for _, s := range []*quorum.Engine{a, b} {
				mustAcquire(t, s, "a")
				require.NoError(t, s.Check(t.Context()))
				require.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
			}
		}
		waitFor(quorum.MembershipTTL)
	})
}

func TestAnotherQuorumOnTheSameServerIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shared int
		names  []string
		want   string
	}{
		"other nodes": {1, []string{"a", "d", "e"}, "node 1 (a) is used by"},
		"fewer nodes": {1, []string{"a"}, "(2 of a, b, c), but this program needs 1 of a;"},
		"more nodes": {
			3,
			[]string{"a", "b", "c", "d", "e"},
			"this program needs 3 of a, b, c, d, e",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, all := scripted(3)
				first, err := quorum.NewEngine(all, quorum.Names("a", "b", "c"))
				require.NoError(t, err)
				others, more := scripted(len(c.names))
				copy(more, all[:c.shared])
				s, err := quorum.NewEngine(more, quorum.Names(c.names...))
				assert.Nil(t, s)
				require.ErrorIs(t, err, quorum.ErrMixed)
				require.ErrorIs(t, err, renewer.ErrConfig)
				require.ErrorContains(t, err, c.want)
				synctest.Wait()
				for _, node := range others {
					assert.Empty(t, node.Owner("\x00lockbeat quorum"), "nothing is left behind")
					assert.Empty(t, node.Owner("\x00lockbeat quorum probe"))
				}
				mustAcquire(t, first, "a")
				require.NoError(t, first.Check(t.Context()))
				waitFor(quorum.MembershipTTL) // the first has gone
				requireFree(t, "\x00lockbeat quorum", nodes)
				s, err = quorum.NewEngine(more, quorum.Names(c.names...))
				require.NoError(t, err)
				require.NoError(t, s.Check(t.Context()))
				waitFor(time.Minute)
			})
		})
	}
}

// A quorum that begins where a server could not be asked is found
// later, and nothing is granted until one of the two has gone.
func TestMixedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, all := scripted(3)
		logger, text := logged()
		a, err := quorum.NewEngine(all, quorum.Names("a", "b", "c"), quorum.Log(logger))
		require.NoError(t, err)
		nodes[0].Script(script.Acquire, script.Hang())
		_, more := scripted(3)
		more[0] = nodes[0]
		var b *quorum.Engine
		assert.Equal(t, time.Second, took(func() {
			b, err = quorum.NewEngine(more, quorum.Names("a", "d", "e"), quorum.Log(logger))
		}))
		require.NoError(t, err, "no node says otherwise")
		mustAcquire(t, a, "a")
		require.Equal(t, store.StatusHeld,
			b.Acquire(t.Context(), []store.Claim{claim("m", "b")})[0].Status)
		waitFor(quorum.MembershipEvery)
		b.Renew(t.Context(), []store.Hold{hold("m", "b")})
		synctest.Wait()
		g := acquire(t.Context(), b, "b")
		require.ErrorIs(t, g.Err, quorum.ErrMixed)
		require.ErrorIs(t, g.Err, renewer.ErrRejected)
		assert.Contains(t, text.String(), "programs differ in the nodes of their quorum")
		require.ErrorIs(t, b.Check(t.Context()), quorum.ErrMixed)
		waitFor(quorum.MembershipTTL) // a has gone
		nodes[0].Script(script.Acquire, script.Fail(errDown))
		require.Error(t, acquire(t.Context(), b, "b").Err)
		synctest.Wait()
		require.Error(t, acquire(t.Context(), b, "b").Err, "no node says otherwise")
		waitFor(quorum.MembershipEvery)
		b.Renew(t.Context(), []store.Hold{hold("m", "b")}) // asks anew; an acquire might be first
		synctest.Wait()
		mustAcquire(t, b, "b")
		waitFor(quorum.MembershipTTL)
		a.Close()
		b.Close()
	})
}

// The membership is kept under a name, which a client could send: all locks of
// other programs were refused for as long as it held the lock.
func TestTheMembershipIsNoLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, all := scripted(3)
		s, err := quorum.NewEngine(all, quorum.Names("a", "b", "c"))
		require.NoError(t, err)
		other, err := quorum.NewEngine(all, quorum.Names("a", "b", "c"))
		require.NoError(t, err)
		k, err := renewer.New(s, renewer.Config{TTL: 15 * time.Second})
		require.NoError(t, err)
		waitFor(quorum.MembershipTTL + time.Second) // an idle minute, after which the name is free
		requireFree(t, quorum.OwnNames[0], nodes)
		for _, name := range quorum.OwnNames {
			_, err = k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
			require.ErrorIs(t, err, renewer.ErrName)
			require.ErrorIs(t, renewer.CheckName(name), renewer.ErrName)
		}
		for range 2 {
			mustAcquire(t, other, "a")
			synctest.Wait() // it has compared its nodes with those of others
			require.NoError(t, other.Check(t.Context()))
		}
		require.NoError(t, k.Shutdown(t.Context()))
		waitFor(time.Minute)
		s.Close()
		other.Close()
	})
}

// The same server by two ways, such as two names of one host.
func TestSameServerTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := scripted(2)
		s, err := quorum.NewEngine(
			[]store.Store{nodes[0], nodes[1], struct{ contract.Proposer }{nodes[0]}},
			quorum.Names("a", "b", "c"))
		assert.Nil(t, s)
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err,
			"node 1 (a) and node 3 (c) are the same server; give each once")
		synctest.Wait()
		requireFree(t, "\x00lockbeat quorum", nodes)
		requireFree(t, "\x00lockbeat quorum probe", nodes)
	})
}

func TestUnreachableMajority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, all := scripted(3)
		logger, text := logged()
		nodes[0].Default(script.Acquire, script.Fail(errDown))
		s, err := quorum.NewEngine(all, quorum.Names("a", "b", "c"), quorum.Log(logger))
		require.NoError(t, err)
		assert.Empty(t, text.String(), "a majority answers")
		require.NoError(t, s.Check(t.Context()))

		nodes[1].Default(script.Acquire, script.Fail(errDown))
		s, err = quorum.NewEngine(all, quorum.Names("a", "b", "c"), quorum.Log(logger))
		require.NoError(t, err, "they may come back")
		assert.Contains(t, text.String(), "level=WARN")
		assert.Contains(t, text.String(),
			"node 1 (a): connection refused; node 2 (b): connection refused")
		err = s.Check(t.Context())
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		waitFor(time.Minute)
	})
}

// Nodes without names are asked nothing when the store is made, and
// by Check only whether they answer.
func TestCheckWithoutNames(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Default(script.Renew, script.Hang())
		require.NoError(t, s.Check(limited(t, time.Second)))
		nodes[1].Default(script.Renew, script.Fail(errDown))
		err := s.Check(limited(t, time.Second))
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorContains(t, err, "quorum: check: 2 of 3 nodes gave no answer, 2 must agree")
		for _, node := range nodes {
			assert.Empty(t, node.Calls(script.Acquire))
		}
	})
}
