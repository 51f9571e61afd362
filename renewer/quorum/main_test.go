package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

var errDown = errors.New("connection refused")

// inBubble runs f in a bubble with a quorum of n scripted nodes. What is
// left in the background has time to end.
func inBubble(
	t *testing.T, n int, f func(t *testing.T, s *quorum.Engine, nodes []*script.Store),
	opts ...quorum.Option,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := scripted(n)
		s, err := quorum.NewEngine(stores, opts...)
		require.NoError(t, err)
		defer waitFor(time.Minute) // nothing moves on when f is over
		f(t, s, nodes)
	})
}

func scripted(n int) (nodes []*script.Store, stores []store.Store) {
	for range n {
		node := script.New()
		nodes, stores = append(nodes, node), append(stores, node)
	}
	return nodes, stores
}

// propose has a node grant a claim with a token.
func propose(t *testing.T, node contract.Proposer, c store.Claim, fence int64) {
	t.Helper()
	grants := node.Propose(t.Context(), []contract.Proposal{{Claim: c, Fence: fence}})
	require.Equal(t, store.StatusHeld, grants[0].Status)
}

// waitFor lets d go by.
func waitFor(d time.Duration) { <-time.After(d) }

// took returns how long f takes by the bubble's clock.
func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// owner makes an owner token out of a letter.
func owner(letter string) string { return strings.Repeat(letter, store.OwnerLen) }

func claim(name, letter string) store.Claim {
	return store.Claim{
		Name: name, Owner: owner(letter), TTL: ttl,
		Holder: store.Holder{Node: "node-" + letter, PID: 42},
	}
}

func hold(name, letter string) store.Hold {
	return store.Hold{Name: name, Owner: owner(letter), TTL: ttl}
}

// limited is a context for one request.
func limited(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func acquire(ctx context.Context, s store.Store, letter string) store.Grant {
	return s.Acquire(ctx, []store.Claim{claim("n", letter)})[0]
}

func renew(ctx context.Context, s store.Store, letter string) store.Answer {
	return s.Renew(ctx, []store.Hold{hold("n", letter)})[0]
}

func release(ctx context.Context, s store.Store, letter string) store.Answer {
	return s.Release(ctx, []store.Hold{hold("n", letter)})[0]
}

// mustAcquire acquires, and requires that it is granted.
func mustAcquire(t *testing.T, s store.Store, letter string) int64 {
	t.Helper()
	g := acquire(t.Context(), s, letter)
	require.NoError(t, g.Err)
	require.Equal(t, store.StatusHeld, g.Status)
	return g.Fence
}

// requireFree requires that no node has a name.
func requireFree(t *testing.T, name string, nodes []*script.Store) {
	t.Helper()
	for i, node := range nodes {
		require.Empty(t, node.Owner(name), "node %d", i+1)
	}
}

// owners are who has a name on each node, a letter each, "-" for none.
func owners(name string, nodes []*script.Store) string {
	var b strings.Builder
	for _, node := range nodes {
		b.WriteString((node.Owner(name) + "-")[:1])
	}
	return b.String()
}
