package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/nemesis/internal/resource"
	"github.com/lockbeat/lockbeat/renewer"
)

// caller is one goroutine that takes locks.
type caller struct {
	spec   Spec
	keeper *renewer.Keeper
	t      *teller
	ops    *atomic.Int64
	dice   *rand.Rand
	client *resource.Client
}

// leaveTime is after how long a caller leaves that does not wait for its turn.
const leaveTime = 100 * time.Millisecond

// dice are a caller's own, so that its choices depend on the seed alone.
func dice(spec Spec, caller int) *rand.Rand {
	return rand.New(rand.NewPCG(spec.Seed, uint64(caller))) //nolint:gosec // choices, not secrets
}

func (c *caller) run(ctx context.Context) {
	defer func() {
		if c.client != nil {
			_ = c.client.Close()
		}
	}()
	for c.pass(ctx, c.below(c.spec.Think)) {
		c.once(ctx, c.spec.Keys[c.dice.IntN(len(c.spec.Keys))])
	}
}

// below is a random time.
func (c *caller) below(d time.Duration) time.Duration {
	return time.Duration(c.dice.Int64N(int64(d)))
}

// pass lets d go by, and reports whether ctx still lives.
func (c *caller) pass(ctx context.Context, d time.Duration) bool {
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
	wait := c.below(4 * c.spec.TTL)
	switch {
	case c.dice.IntN(10) == 0:
		wait = 0
	case c.spec.Leave > 0 && c.dice.IntN(c.spec.Leave) == 0:
		wait = min(wait, leaveTime)
	}
	c.t.tell(history.Event{
		Kind: history.Ask, At: history.Now(), Op: op, Name: name,
		Until: int64(wait),
	})
	lease, err := c.keeper.Acquire(ctx, name, renewer.Operation("nemesis"), renewer.MaxWait(wait))
	at := history.Now()
	if err != nil {
		c.t.tell(history.Event{Kind: history.Not, At: at, Op: op, Err: kind(err)})
		return
	}
	c.t.tell(history.Event{Kind: history.Got, At: at, Op: op, Fence: lease.Fence()})

	// The operation may act on the end of its context as soon as it is seen: here by
	// a goroutine of its own, which nothing else keeps busy.
	seen := make(chan struct{})
	stop := context.AfterFunc(lease.Context(), func() {
		c.t.tell(history.Event{
			Kind: history.Over, At: history.Now(), Op: op,
			Err: lease.Context().Err().Error(),
		})
		close(seen)
	})
	c.use(lease, op)
	if !stop() {
		<-seen
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

// releaseFirst is what LateRelease breaks: the lock is free before the work is done.
func (c *caller) releaseFirst(lease *renewer.Lease, op int64) {
	err := lease.Release(context.Background())
	c.pass(context.Background(), c.below(20*time.Millisecond))
	c.t.tell(history.Event{Kind: history.Freeing, At: history.Now(), Op: op})
	c.t.tell(history.Event{Kind: history.Freed, At: history.Now(), Op: op, Err: kind(err)})
}

// use increments the counter that the lock protects, read-modify-write, a few times:
// most often at once, now and then over more than a TTL, so that heartbeats are needed.
func (c *caller) use(lease *renewer.Lease, op int64) {
	steps, pause := 1+c.dice.IntN(3), 2*time.Millisecond
	if c.dice.IntN(c.spec.Long) == 0 {
		steps, pause = 4+c.dice.IntN(8), c.spec.TTL/2
	}
	for range steps {
		if c.increment(lease, op, c.below(pause)) != nil {
			return
		}
	}
}

// errOver ends a use.
var errOver = errors.New("worker: the lease is over")

func (c *caller) increment(lease *renewer.Lease, op int64, pause time.Duration) error {
	if c.client == nil {
		client, err := resource.Dial(c.spec.Resource)
		if err != nil {
			return err
		}
		c.client = client
	}
	value, err := c.client.Read(lease.Name(), lease.Fence())
	if err != nil {
		return err
	}
	alive := c.pass(lease.Context(), pause)
	at := history.Now() // before the question, so that what is told is not later than the truth
	left := lease.Remaining()
	if !alive || left <= 0 {
		return errOver
	}
	c.t.tell(history.Event{Kind: history.Valid, At: at, Op: op, Until: at + int64(left)})
	return c.client.Write(lease.Name(), lease.Fence(), value+1)
}

// kind is an error in a word, "" for none.
func kind(err error) string {
	for _, k := range []error{
		renewer.ErrLost, renewer.ErrHeld, renewer.ErrRejected, renewer.ErrUnavailable,
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
