package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/renewer"
)

// caller is one goroutine that takes locks.
type caller struct {
	spec   Spec
	keeper *renewer.Keeper
	t      *teller
	ops    *atomic.Int64
	dice   *rand.Rand
}

const (
	// think is the longest that a caller waits before it takes a lock.
	think = 5 * time.Millisecond
	// One in so many calls leaves the line within leaveTime, so that heads of lines keep leaving.
	leave     = 4
	leaveTime = 100 * time.Millisecond
	// Of so many calls that wait for a lock one replaces it, and another is Latest.
	replaces = 16
	// clearTime is the longest that most operations go on for once their leases are broken.
	clearTime = 5 * time.Millisecond
)

// dice are a caller's own, so that its choices depend on the seed alone.
func dice(spec Spec, caller int) *rand.Rand {
	return rand.New(rand.NewPCG(spec.Seed, uint64(caller))) //nolint:gosec // choices, not secrets
}

func (c *caller) run(ctx context.Context) {
	for wait(ctx, below(c.dice, think)) {
		c.once(ctx, c.spec.Keys[c.dice.IntN(len(c.spec.Keys))])
	}
}

// below is a random time.
func below(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(d)))
}

// wait lets d go by, and reports whether ctx still lives.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// once takes a lock, uses it and frees it.
func (c *caller) once(ctx context.Context, name string) {
	op := c.ops.Add(1)
	most := below(c.dice, 4*c.spec.TTL)
	switch {
	case c.dice.IntN(10) == 0:
		most = 0
	case c.dice.IntN(leave) == 0:
		most = min(most, leaveTime)
	}
	c.t.tell(history.Event{
		Kind: history.Ask, At: history.Now(), Op: op, Name: name,
		Until: int64(most),
	})
	lease, err := c.keeper.Acquire(ctx, c.request(name, most))
	at := history.Now()
	if err != nil {
		c.t.tell(history.Event{Kind: history.Not, At: at, Op: op, Err: kind(err)})
		return
	}
	c.t.tell(history.Event{Kind: history.Got, At: at, Op: op, Fence: lease.Fence()})

	// The operation may act on the end of its context as soon as it is seen: here by
	// a goroutine of its own, which nothing else keeps busy.
	seen := make(chan struct{})
	broken := false
	stop := context.AfterFunc(lease.Context(), func() {
		e := history.Event{Kind: history.Over, At: history.Now(), Op: op}
		if lost, ok := errors.AsType[*renewer.LostError](context.Cause(lease.Context())); ok {
			e.Err = lost.Reason.String()
			broken = lost.Reason == renewer.ReasonBroken || lost.Reason == renewer.ReasonReplaced
		}
		if broken {
			e.Kind = history.Broken
		}
		c.t.tell(e)
		close(seen)
	})
	c.use(lease, op)
	if !stop() {
		<-seen
		if broken {
			c.clearUp()
		}
	}
	if c.spec.Flaw == LateRelease {
		c.releaseFirst(lease, op)
		return
	}
	c.t.tell(history.Event{Kind: history.Freeing, At: history.Now(), Op: op})
	if c.dice.IntN(20) == 0 {
		err = lease.Abort(context.Background())
	} else {
		err = lease.Release(context.Background())
	}
	c.t.tell(history.Event{Kind: history.Freed, At: history.Now(), Op: op, Err: kind(err)})
}

// request is that of one call, which may wait for so long.
func (c *caller) request(name string, most time.Duration) renewer.Request {
	r := renewer.Request{Name: name, Operation: "nemesis", MaxWait: most, Try: most == 0}
	if n := c.spec.Limits[name]; n != 0 {
		if c.spec.Flaw == OneMore {
			n++
		}
		r.Limit = func() int { return n }
		return r
	}
	if most == 0 || !slices.Contains(c.spec.Broken, name) {
		return r
	}
	switch c.dice.IntN(replaces) {
	case 0:
		r.Newest = renewer.NewestReplaces
	case 1:
		r.Newest = renewer.NewestWaits
	}
	return r
}

// clearUp goes on for a while after the context has ended, now and then for longer than a TTL:
// meanwhile nobody else is to have the name.
func (c *caller) clearUp() {
	most := clearTime
	if c.dice.IntN(c.spec.Long) == 0 {
		most = 2 * c.spec.TTL
	}
	wait(context.Background(), below(c.dice, most))
}

// releaseFirst is what LateRelease breaks: the lock is free before the work is done.
func (c *caller) releaseFirst(lease *renewer.Lease, op int64) {
	err := lease.Release(context.Background())
	wait(context.Background(), below(c.dice, 20*time.Millisecond))
	c.t.tell(history.Event{Kind: history.Freeing, At: history.Now(), Op: op})
	c.t.tell(history.Event{Kind: history.Freed, At: history.Now(), Op: op, Err: kind(err)})
}

// use looks at the lease a few times: most often at once, now and then over more than a TTL, so
// that heartbeats are needed.
func (c *caller) use(lease *renewer.Lease, op int64) {
	steps, pause := 1+c.dice.IntN(3), 2*time.Millisecond
	if c.dice.IntN(c.spec.Long) == 0 {
		steps, pause = 4+c.dice.IntN(8), c.spec.TTL/2
	}
	for range steps {
		alive := wait(lease.Context(), below(c.dice, pause))
		at := history.Now() // before the question, so that what is told is not later than the truth
		left := lease.Remaining()
		if !alive || left <= 0 {
			return
		}
		c.t.tell(history.Event{Kind: history.Valid, At: at, Op: op, Until: at + int64(left)})
	}
}

// kind is an error in a word, "" for none.
func kind(err error) string {
	for _, k := range []error{
		renewer.ErrLost, renewer.ErrBusy, renewer.ErrRejected, renewer.ErrUnavailable,
		renewer.ErrShutdown, context.Canceled,
	} {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
