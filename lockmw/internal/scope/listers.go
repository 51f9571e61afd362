package scope

import (
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// A caller of lockmw.All that keeps locks while it waits for another takes them from those
	// who want them alone. For so many times as long as it did, no caller of the process keeps
	// them so. So they are kept for a tenth of the time, whatever is listed beside them, and by
	// how many.
	keepRest = 9
	// What took no longer, and had its turn then, does not count: callers who want the same
	// locks, for operations that take a moment, follow each other at once.
	keepFree = 20 * time.Millisecond
)

// listers is what the callers of lockmw.All in this process know of each other, so that a crowd
// of them does not keep locks from everyone else. It has nothing of a name that no caller waits
// for and that no caller has kept of late.
var listers = crowd{waiting: make(map[lockName]int), kept: make(map[lockName]time.Time)}

type crowd struct {
	mu sync.Mutex
	// callers that wait for this lock alone, since their patience is over: one that has others
	// in hand does not wait for it at all
	waiting map[lockName]int
	kept    map[lockName]time.Time // until when no caller keeps it while it waits for another
}

type lockName struct {
	keeper *renewer.Keeper
	names.ID
}

// enter counts in a caller that waits for one lock alone; leave counts it out.
func (c *crowd) enter(k *renewer.Keeper, on names.ID) (leave func()) {
	key := lockName{k, on}
	c.mu.Lock()
	c.waiting[key]++
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting[key]--
		if c.waiting[key] == 0 {
			delete(c.waiting, key)
		}
	})
}

// mayWait reports whether a caller may wait for a lock while it keeps others.
func (c *crowd) mayWait(k *renewer.Keeper, on names.ID, keeps []*scope) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[lockName{k, on}] > 0 {
		return false
	}
	for _, s := range keeps {
		// Not what an outer call has, which keeps it in any case.
		if s.outer == nil && time.Now().Before(c.kept[lockName{k, idOf(s.lease)}]) {
			return false
		}
	}
	return true
}

// rest notes for how long a caller has kept locks.
func (c *crowd) rest(k *renewer.Keeper, kept []*scope, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range kept {
		if s.outer != nil {
			continue
		}
		key := lockName{k, idOf(s.lease)}
		from := time.Now()
		if until, rests := c.kept[key]; rests { // the same caller's, for another lock
			from = until
		}
		c.kept[key] = from.Add(keepRest * d)
		time.AfterFunc(time.Until(c.kept[key]), func() { c.forget(key) })
	}
}

// forget forgets a name that has been left alone for long enough.
func (c *crowd) forget(key lockName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until, rests := c.kept[key]; rests && !time.Now().Before(until) {
		delete(c.kept, key)
	}
}

// idOf is what a lease is of.
func idOf(l *renewer.Lease) names.ID { return names.ID{Name: l.Name(), Limited: l.Limited()} }
