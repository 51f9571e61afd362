package topology_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// cluster is a scripted one.
type cluster struct {
	addrs []string
	slots func(ctx context.Context, addr string) (redisreply.Reply, error)
	asked atomic.Int64
}

func (c *cluster) topology(t *testing.T, life context.Context) *topology.Topology {
	t.Helper()
	return topology.NewOf(life, func() []string { return c.addrs },
		func(ctx context.Context, addr string) (rueidis.RedisMessage, error) {
			c.asked.Add(1)
			reply, err := c.slots(ctx, addr)
			if err != nil {
				return rueidis.RedisMessage{}, err
			}
			return reply.Message(t), nil
		})
}

// halves has the lower half of the slots on a:1, and the upper on b:1.
func halves(context.Context, string) (redisreply.Reply, error) {
	return list(slotRow(0, 8191, text("a"), 1), slotRow(8192, 16383, text("b"), 1)), nil
}

var errDown = errors.New("down")

func hangs(ctx context.Context, _ string) (redisreply.Reply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestNothingIsKnownAtFirst(t *testing.T) {
	t.Parallel()
	c := cluster{addrs: []string{"a:1"}, slots: halves}
	top := c.topology(t, t.Context())
	assert.Zero(t, top.Shard(16383))
	assert.Empty(t, top.Addr(16383))
	assert.Zero(t, c.asked.Load(), "no question makes it ask")
	changes := 0
	top.OnChange(func() { changes++ })
	top.Learn(t.Context())
	assert.Equal(t, 1, changes)
	assert.Equal(t, 1, top.Shard(16383))
	assert.Equal(t, "b:1", top.Addr(16383))
	assert.Equal(t, "a:1", top.Addr(0))
}

// One server that hangs costs its 300 ms, however long it hangs; one that fails
// costs nothing.
func TestLearnAsksTheNextServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first func(context.Context, string) (redisreply.Reply, error)
		took  time.Duration
	}{
		"hangs": {hangs, topology.AskTimeout},
		"ignores its context": {func(context.Context, string) (redisreply.Reply, error) {
			<-time.After(time.Hour)
			return nil, errDown
		}, topology.AskTimeout},
		"fails": {func(context.Context, string) (redisreply.Reply, error) {
			return nil, errDown
		}, 0},
		"is none": {func(context.Context, string) (redisreply.Reply, error) {
			return text("x"), nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := cluster{addrs: []string{"a:1", "b:1"}}
				all.slots = func(ctx context.Context, addr string) (redisreply.Reply, error) {
					if addr == "a:1" {
						return c.first(ctx, addr)
					}
					return halves(ctx, addr)
				}
				top := all.topology(t, t.Context())
				begun := time.Now()
				top.Learn(t.Context())
				assert.Equal(t, c.took, time.Since(begun))
				assert.Equal(t, "b:1", top.Addr(16383))
				<-time.After(time.Hour) // by then no question is under way
			})
		})
	}
}

func TestLearnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cluster{addrs: []string{"a:1", "b:1"}, slots: hangs}
		top := c.topology(t, t.Context())
		begun := time.Now()
		top.Learn(t.Context())
		assert.Equal(t, 2*topology.AskTimeout, time.Since(begun), "when no server tells")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begun = time.Now()
		top.Learn(ctx)
		assert.Equal(t, time.Millisecond, time.Since(begun), "with its context")
		assert.Empty(t, top.Addr(0))
	})
}

// A failure asks at most once a second, age once a minute, and both never twice
// at once.
func TestReview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		defer end()
		c := cluster{addrs: []string{"a:1"}, slots: halves}
		top := c.topology(t, life)
		review := func(failed bool) int64 {
			before := c.asked.Load()
			for range 3 {
				top.Review(failed)
			}
			synctest.Wait()
			return c.asked.Load() - before
		}
		assert.EqualValues(t, 1, review(false), "nothing is known")
		assert.Zero(t, review(true), "it was asked a moment ago")
		<-time.After(topology.Pause)
		assert.Zero(t, review(false), "it is fresh")
		assert.EqualValues(t, 1, review(true))
		<-time.After(topology.MaxAge - 1)
		assert.Zero(t, review(false))
		<-time.After(1)
		assert.EqualValues(t, 1, review(false), "it is old")

		c.slots = hangs
		<-time.After(topology.Pause)
		assert.EqualValues(t, 1, review(true))
		assert.Equal(t, "b:1", top.Addr(16383), "what was known stays")
		<-time.After(topology.Pause)
		c.slots = halves
		end()
		assert.Zero(t, review(true), "its life has ended")
	})
}
