package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// maxReleaseBatch bounds one release of a cleaner.
	maxReleaseBatch = 1000
	// maxPlanned bounds what a cleaner has yet to do, so that a node that is
	// down for long does not cost memory for long. A key that is dropped here
	// lapses with its TTL.
	maxPlanned = 4096
)

// cleaner frees on one node what failed attempts got there, or may yet get.
// Invariant: it has one call under way at most, so that a node that hangs costs
// one goroutine, and it runs only while there is something to do. Its fields
// are guarded by leaseTable.mu.
type cleaner struct {
	nodes *nodeSet
	table *leaseTable
	node  int
	// planned is nearly in the order in which the cleanups fall due: each is
	// planned for now, or for Settle from now.
	planned []cleanup
	running bool
	wake    chan struct{}
}

// cleanup is one lease to free on a node.
type cleanup struct {
	lease *lease
	epoch int           // of the lease, for which it was planned
	due   time.Duration // by nodeSet.age
	last  bool          // whether it was tried before
}

// cleaners are those of all nodes.
type cleaners []*cleaner

func newCleaners(nodes *nodeSet, table *leaseTable) cleaners {
	all := make(cleaners, len(nodes.all))
	for x := range all {
		all[x] = &cleaner{nodes: nodes, table: table, node: x, wake: make(chan struct{}, 1)}
	}
	return all
}

// clean plans to free what a lease may have on each node. Under mu.
func (cs cleaners) clean(l *lease, unknown bool) {
	for _, c := range cs {
		c.clean(l, unknown)
	}
}

// clean plans to free what a lease may have on the node. An acquire without an
// answer is freed once more when it can't take effect any longer.
//
// If the outcome is unknown to the caller, only that later cleanup is planned:
// the caller frees the lease itself, or tries again, and a release without an
// answer would bar it from the node. Under mu.
func (c *cleaner) clean(l *lease, unknown bool) {
	switch n := &l.nodes[c.node]; {
	case n.confirmed != 0, n.asked != 0 && !unknown:
		c.plan(cleanup{lease: l, epoch: l.epoch, due: c.nodes.age()})
	case n.asked != 0:
		c.plan(cleanup{lease: l, epoch: l.epoch, due: n.asked + c.nodes.settle(c.node)})
	}
}

// plan adds something to do. Under mu.
func (c *cleaner) plan(job cleanup) {
	if c.nodes.closed() || len(c.planned) >= maxPlanned {
		job.lease.nodes[c.node].clear()
		c.table.forget(job.lease)
		return
	}
	at := len(c.planned)
	for at > 0 && c.planned[at-1].due > job.due {
		at--
	}
	c.planned = slices.Insert(c.planned, at, job)
	if !c.running {
		c.running = true
		go c.run()
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run carries out what is planned, until nothing is.
func (c *cleaner) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, holds, next := c.take()
		if len(batch) > 0 {
			c.free(batch, holds)
			continue
		}
		if next < 0 {
			return
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.nodes.background.Done():
		}
	}
}

// take returns the cleanups that are due and still wanted. If there is none,
// next is how long to wait, negative if nothing is planned any more.
func (c *cleaner) take() (batch []cleanup, holds []store.Hold, next time.Duration) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	age, closed := c.nodes.age(), c.nodes.closed()
	n := 0
	for ; n < len(c.planned) && len(batch) < maxReleaseBatch; n++ {
		job := c.planned[n]
		l := job.lease
		if closed {
			l.nodes[c.node].clear()
			c.table.forget(l)
			continue
		}
		if l.epoch != job.epoch {
			continue
		}
		if job.due > age {
			break
		}
		l.nodes[c.node].freeing++
		batch = append(batch, job)
		holds = append(holds, store.Hold{Name: l.key.name, Owner: l.key.owner, TTL: l.ttl})
	}
	c.planned = slices.Delete(c.planned, 0, n)
	if len(batch) > 0 {
		return batch, holds, 0
	}
	if len(c.planned) == 0 {
		c.running, c.planned = false, nil
		return nil, nil, -1
	}
	return nil, nil, c.planned[0].due - age
}

// free carries out a batch.
func (c *cleaner) free(batch []cleanup, holds []store.Hold) {
	timeout := max(minPatience, c.nodes.settle(c.node))
	ctx, cancel := context.WithTimeout(c.nodes.background, timeout)
	answers := c.nodes.all[c.node].store.Release(ctx, holds)
	cancel()
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	for i, job := range batch {
		status := store.StatusUnknown
		if len(answers) == len(batch) {
			status = answers[i].Status
		}
		c.freed(job.lease, status, job.last)
	}
}

// freed records the answer to a release that nodeState.freeing counted, and
// plans what is left to do. Under mu.
func (c *cleaner) freed(l *lease, status store.Status, last bool) {
	n, settle, age := &l.nodes[c.node], c.nodes.settle(c.node), c.nodes.age()
	n.freeing--
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
	if status == store.StatusUnknown {
		n.unsafeUntil = max(n.unsafeUntil, age+settle)
	} else {
		n.refuse(c.nodes.clock.Now())
	}
	again := cleanup{lease: l, epoch: l.epoch}
	switch {
	case l.granted, l.asking > 0:
		return // a later attempt decides what becomes of it
	case n.late && n.freeing == 0:
		n.late, n.confirmed = false, 1 // it may be there, so that the lease is not forgotten
		again.due = age
	case n.asked != 0 && age < n.asked+settle:
		again.due, again.last = n.asked+settle, last || status == store.StatusUnknown
	case status == store.StatusUnknown && !last:
		again.due, again.last = age+max(settle, minPatience), true
	default:
		n.clear()
		c.table.forget(l)
		return
	}
	c.plan(again)
}
