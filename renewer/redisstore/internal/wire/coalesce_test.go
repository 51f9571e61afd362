package wire_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// slowServer is a server that answers a question by its double, after
// a second, and counts commands.
type slowServer struct {
	coalescer       *wire.Coalescer[int, int]
	alone, together atomic.Int64
	most            atomic.Int64
	refuse          atomic.Bool
	left            atomic.Int64 // groups whose context ended first
}

// unanswered is what a caller gets who has left.
const unanswered = -1

func newSlowServer() *slowServer {
	c := &slowServer{}
	c.coalescer = &wire.Coalescer[int, int]{
		Alike: func(a, b *int) bool { return *a%2 == *b%2 },
		Alone: func(ctx context.Context, q []int) []int {
			c.alone.Add(1)
			answers := make([]int, len(q))
			select {
			case <-time.After(time.Second):
				for i := range q {
					answers[i] = 2 * q[i]
				}
			case <-ctx.Done():
				for i := range q {
					answers[i] = unanswered
				}
			}
			return answers
		},
		Together: func(ctx context.Context, q []int) []int {
			c.together.Add(1)
			c.most.Store(max(c.most.Load(), int64(len(q))))
			if c.refuse.Load() {
				return nil
			}
			answers := make([]int, len(q))
			for i := range q {
				answers[i] = 2 * q[i]
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				c.left.Add(1)
			}
			return answers
		},
		Unknown: func(error) int { return unanswered },
	}
	return c
}

// ask has so many callers ask at once: from, from+step ...
func (c *slowServer) ask(
	ctx context.Context, t *testing.T, from, step, n int, want func(q int) int,
) (done func()) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		q := from + i*step
		wg.Go(func() { assert.Equal(t, []int{want(q)}, c.coalescer.Ask(ctx, []int{q})) })
	}
	synctest.Wait()
	return wg.Wait
}

func double(q int) int { return 2 * q }

func TestCallersWhoMeetShareACommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newSlowServer()
		start := time.Now()
		few := c.ask(t.Context(), t, 0, 2, wire.GroupFrom, double)
		assert.EqualValues(t, wire.GroupFrom, c.alone.Load(), "few: no waiting, no company")
		assert.Zero(t, c.together.Load())
		crowd := c.ask(t.Context(), t, 2, 2, 200, double)
		few()
		crowd()
		assert.Equal(t, time.Second, time.Since(start),
			"and no caller waits for an answer to others")
		// how many meet is the scheduler's affair
		assert.LessOrEqual(t, c.alone.Load()+c.together.Load(), int64(100+wire.GroupFrom), "200 that meet")
		assert.LessOrEqual(t, c.most.Load(), int64(wire.GroupMost))
	})
}

// A caller with several questions asks all of them in one command, alone or
// with others.
func TestCallersWithSeveralQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newSlowServer()
		assert.False(t, c.coalescer.Joins(nil))
		assert.False(t, c.coalescer.Joins([]int{2, 4, 5}))
		assert.False(t, c.coalescer.Joins(make([]int, wire.GroupMost+1)))
		assert.True(t, c.coalescer.Joins([]int{2, 4, 6}))
		start := time.Now()
		assert.Equal(t, []int{4, 8, 12}, c.coalescer.Ask(t.Context(), []int{2, 4, 6}))
		assert.EqualValues(t, 1, c.alone.Load())

		busy := c.ask(t.Context(), t, 2, 2, 1, double)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 60 {
			q, mine, lost := []int{4 * i, 4*i + 2, 4*i + 4}, t.Context(), i%3 == 0
			want := []int{8 * i, 8*i + 4, 8*i + 8}
			if lost {
				mine, want = ctx, []int{unanswered, unanswered, unanswered}
			}
			wg.Go(func() { assert.Equal(t, want, c.coalescer.Ask(mine, q)) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		busy()
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Positive(t, c.together.Load())
		assert.LessOrEqual(t, c.most.Load(), int64(wire.GroupMost))
	})
}

func TestQuestionsThatDifferTravelApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newSlowServer()
		first := c.ask(t.Context(), t, 0, 1, 100, double) // odd and even
		first()
		assert.Positive(t, c.together.Load())
		assert.GreaterOrEqual(t, c.alone.Load(), int64(10),
			"those who find a group of the other kind")
	})
}

func TestWhoLeavesGetsNoAnswerAndSpoilsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newSlowServer()
		busy := c.ask(t.Context(), t, 2, 2, 1, double)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 20 {
			q, mine, want := 4+2*i, ctx, unanswered
			if i%2 == 0 {
				mine, want = t.Context(), double(q)
			}
			wg.Go(func() { assert.Equal(t, []int{want}, c.coalescer.Ask(mine, []int{q})) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		busy()
	})
}

func TestAGroupEndsWithTheLastWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newSlowServer()
		busy := c.ask(t.Context(), t, 2, 2, 1, double)
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.ask(ctx, t, 4, 2, 20, func(int) int { return unanswered })
		require.Positive(t, c.together.Load())
		cancel()
		gone()
		synctest.Wait()
		assert.Equal(t, c.together.Load(), c.left.Load())
		busy()
	})
}

func TestWhenAskingTogetherIsNoUseEachAsksAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newSlowServer()
		c.refuse.Store(true)
		busy := c.ask(t.Context(), t, 2, 2, 1, double)
		c.ask(t.Context(), t, 4, 2, 20, double)()
		busy()
		assert.EqualValues(t, 21, c.alone.Load())
		assert.Positive(t, c.together.Load())
	})
}
