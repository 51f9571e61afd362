package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// slowServer is a server that answers a question by its double, after
// a second, and counts commands.
type slowServer struct {
	coalescer       *redisstore.Coalescer[int, int]
	alone, together atomic.Int64
	most            atomic.Int64
	refuse          atomic.Bool
	left            atomic.Int64 // groups whose context ended first
}

// unanswered is what a caller gets who has left.
const unanswered = -1

func newSlowServer() *slowServer {
	c := &slowServer{}
	c.coalescer = redisstore.NewCoalescer(
		func(a, b *int) bool { return *a%2 == *b%2 },
		func(ctx context.Context, q []int) []int {
			c.alone.Add(1)
			select {
			case <-time.After(time.Second):
				return []int{2 * q[0]}
			case <-ctx.Done():
				return []int{unanswered}
			}
		},
		func(ctx context.Context, q []int) []int {
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
		func(error) int { return unanswered },
	)
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
		wg.Go(func() { assert.Equal(t, []int{want(q)}, c.coalescer.Do(ctx, []int{q})) })
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
		lone := c.ask(t.Context(), t, 1, 1, 1, double)
		assert.EqualValues(t, 1, c.alone.Load(), "there is no other caller: no waiting, no company")
		crowd := c.ask(t.Context(), t, 2, 2, 200, double)
		lone()
		crowd()
		assert.Equal(t, time.Second, time.Since(start),
			"and no caller waits for an answer to others")
		// how many meet is the scheduler's affair
		assert.LessOrEqual(t, c.alone.Load()+c.together.Load(), int64(100), "200 that meet")
		assert.LessOrEqual(t, c.most.Load(), int64(redisstore.GroupMost))
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
			wg.Go(func() { assert.Equal(t, []int{want}, c.coalescer.Do(mine, []int{q})) })
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

// TestACrowdOnRealRedis has many callers take and free locks of their own at
// once. They need far fewer commands than there are questions, and each gets
// its own answer: tokens that rise, a refusal for who meets another's lock.
func TestACrowdOnRealRedis(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	foreign := claim("taken", "x", time.Minute)
	mine(t, store, foreign)

	const callers, rounds = 200, 20
	before := calls(t, s, "evalsha") + calls(t, s, "eval")
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			last := int64(0)
			for r := range rounds {
				c := claimOf("crowd:"+strconv.Itoa(i), 100*i+r)
				g := store.Acquire(t.Context(), []renewer.Claim{c})[0]
				if !assert.Equal(t, renewer.StatusHeld, g.Status, "%v", g.Err) {
					return
				}
				assert.Greater(t, g.Fence, last)
				last = g.Fence
				if r == 0 {
					refused := store.Acquire(t.Context(),
						[]renewer.Claim{claimOf("taken", 100*i+r)})[0]
					assert.Equal(t, renewer.StatusTaken, refused.Status)
					assert.Equal(t, foreign.Holder.Node, refused.Holder.Node)
				}
				a := store.Release(t.Context(), []renewer.Hold{{Name: c.Name, Owner: c.Owner}})[0]
				assert.Equal(t, renewer.StatusHeld, a.Status, "%v", a.Err)
				if r == 1 {
					a = store.Release(t.Context(),
						[]renewer.Hold{{Name: c.Name, Owner: c.Owner}})[0]
					assert.Equal(t, renewer.StatusGone, a.Status)
				}
			}
		})
	}
	wg.Wait()
	used := calls(t, s, "evalsha") + calls(t, s, "eval") - before
	assert.Less(t, used, int64(callers*rounds), "commands for %d questions", callers*(2*rounds+2))
	assert.Zero(t, s.number(t, "EXISTS", redisstore.LeaseKey(redisstore.DefaultPrefix, "crowd:0")))
}

// claimOf is a claim by an owner of some number.
func claimOf(name string, number int) renewer.Claim {
	c := claim(name, "n", time.Minute)
	c.Owner = fmt.Sprintf("%0*d", renewer.OwnerLen, number)
	return c
}

// calls is how often the server has been sent a command.
func calls(t *testing.T, s server, command string) int64 {
	t.Helper()
	text, err := s.do(t, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	_, rest, ok := strings.Cut(text, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(number, 10, 64)
	require.NoError(t, err)
	return n
}

// TestOneBadKeySpoilsNoOther has one of many lock keys hold something
// else than a lock: only who asks for that one hears of it.
func TestOneBadKeySpoilsNoOther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		s.ok(t, "RPUSH", redisstore.LeaseKey(redisstore.DefaultPrefix, "bad-3"), "x")
		_, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "bad-5")
		s.ok(t, "SET", counter, "0x10")
		s.ok(t, "SET", redisstore.OwnKey(redisstore.DefaultPrefix), "8000000000000000")
		claims := make([]renewer.Claim, 8)
		for i := range claims {
			claims[i] = claimOf("bad-"+strconv.Itoa(i), i)
		}
		claims[7].Owner = "short"
		for i, g := range store.Acquire(t.Context(), claims) {
			switch i {
			case 3:
				rejected(t, g, "WRONGTYPE")
			case 5:
				rejected(t, g, "fence counter")
			case 7:
				rejected(t, g, "22")
			default:
				assert.Equal(t, renewer.StatusHeld, g.Status, "%d: %v", i, g.Err)
			}
		}
		assert.Zero(t, s.number(t, "EXISTS",
			redisstore.LeaseKey(redisstore.DefaultPrefix, "bad-5")))
	})
}

// TestTheScriptsAreForgottenInACrowd has the server forget its
// scripts while many callers ask at once.
func TestTheScriptsAreForgottenInACrowd(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	var wg sync.WaitGroup
	var working atomic.Int64
	working.Store(100)
	for i := range 100 {
		wg.Go(func() {
			defer working.Add(-1)
			for r := range 10 {
				c := claimOf("forgotten:"+strconv.Itoa(i), 100*i+r)
				g := store.Acquire(t.Context(), []renewer.Claim{c})[0]
				assert.Equal(t, renewer.StatusHeld, g.Status, "%v", g.Err)
				a := store.Release(t.Context(), []renewer.Hold{{Name: c.Name, Owner: c.Owner}})[0]
				assert.Equal(t, renewer.StatusHeld, a.Status, "%v", a.Err)
			}
		})
	}
	for working.Load() > 0 {
		s.ok(t, "SCRIPT", "FLUSH")
	}
	wg.Wait()
}
