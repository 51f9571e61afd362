package cleanup

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// lastRequest is how long a request that frees keys may take when Shutdown's
// context has ended.
const lastRequest = time.Second / 2

// LastRequests is the context of those: it ends lastRequest after ctx does, or
// lastRequest from now if ctx has ended.
func LastRequests(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastRequest, cancel) })
	return last, func() {
		stop()
		cancel()
	}
}

// FreeOnce asks the store once to delete what Shutdown is to free.
// What it does not answer for stays left.
func (c *Cleaner) FreeOnce(ctx context.Context) {
	c.byShard(func(some []*Orphan) { _, _ = c.ask(ctx, some) })
	c.drop()
}

// FreeAll deletes what Shutdown is to free. It tries again while ctx has time,
// and no longer than the keys live by themselves. Its requests end with last.
// It returns how many keys it gave up, and why.
func (c *Cleaner) FreeAll(ctx, last context.Context) (n int, failure error) {
	var mu sync.Mutex
	c.byShard(func(some []*Orphan) {
		if some, why := c.freeShard(ctx, last, some); len(some) > 0 {
			mu.Lock()
			n, failure = n+len(some), why
			mu.Unlock()
		}
	})
	c.drop()
	return n, failure
}

// byShard calls free with what Shutdown is to free, the keys of each shard on
// their own, all at the same time: so a server that does not answer holds up no
// other's.
func (c *Cleaner) byShard(free func([]*Orphan)) {
	c.mu.Lock()
	left := slices.Clone(c.left)
	c.mu.Unlock()
	shards := make(map[int][]*Orphan)
	for _, o := range left {
		i := c.shards.Of(o.Hold.Name)
		shards[i] = append(shards[i], o)
	}
	var wg sync.WaitGroup
	for _, some := range shards {
		wg.Go(func() { free(some) })
	}
	wg.Wait()
}

// freeShard returns what it gave up, and why.
func (c *Cleaner) freeShard(
	ctx, last context.Context, left []*Orphan,
) (_ []*Orphan, failure error) {
	for tries := 0; ; tries++ {
		if left, failure = c.ask(last, left); len(left) == 0 {
			return nil, nil
		}
		pause := cleanUpPause(tries)
		deadline, ok := ctx.Deadline()
		if ctx.Err() != nil || ok && time.Until(deadline) <= pause || c.lapsed(left) {
			c.giveUp(left)
			return left, failure
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// lapsed reports whether no key is left at the store, whatever that has
// answered.
func (c *Cleaner) lapsed(orphans []*Orphan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	return !slices.ContainsFunc(orphans, func(o *Orphan) bool { return now < o.until })
}

func (c *Cleaner) giveUp(orphans []*Orphan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range orphans {
		o.done = true
	}
}

// ask asks the store once to delete orphans, for Shutdown or after it. It
// returns which must be tried again, and why.
func (c *Cleaner) ask(ctx context.Context, left []*Orphan) (again []*Orphan, failure error) {
	for batch := range slices.Chunk(c.notFreed(left), freeMost) {
		c.mu.Lock()
		questions := holds(batch, c.cfg.Clock.Now())
		c.mu.Unlock()
		request, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
		answers := c.store.Release(request, questions)
		cancel()
		for i, o := range batch {
			a := asking.AnswerTo(answers, i, len(batch))
			if a.Status != store.StatusUnknown && o.Freed != nil {
				o.Freed()
			}
			if c.settled(o, a.Status) {
				continue
			}
			again, failure = append(again, o), a.Err
		}
	}
	return again, failure
}

// notFreed are those orphans that no sweeper has freed meanwhile: its last
// question may have been answered after Collect.
func (c *Cleaner) notFreed(orphans []*Orphan) []*Orphan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(orphans), func(o *Orphan) bool { return o.done })
}

// settled books an answer to the request of Shutdown, and reports whether no
// other is needed.
func (c *Cleaner) settled(o *Orphan, status store.Status) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.done = o.done || status != store.StatusUnknown || o.once
	return o.done
}
