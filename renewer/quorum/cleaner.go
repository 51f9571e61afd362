package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// mostAtOnce bounds one release of a cleaner.
	maxReleaseBatch = 1000
	// mostPlanned bounds what a cleaner has yet to do, so that a node that is down
	// for long does not cost memory for long. What is dropped lapses with its TTL.
	maxPlanned = 4096
)

// cleaner frees on one node what nobody wants: what attempts that failed have got there,
// or may yet get. It runs while there is something to do, with one call under way, so
// that a node that hangs costs one goroutine. Its fields are guarded by Store.mu.
type cleaner struct {
	s    *Store
	node int
	// in the order in which they fall due, nearly: they are all
	// planned for now, or for Settle from now
	planned []cleanup
	running bool
	wake    chan struct{}
}

// chore is one thing to free.
type cleanup struct {
	lease *lease
	epoch int           // of the lease, for which it was planned
	due   time.Duration // by Store.age
	last  bool          // whether it has been tried before
}

// clean plans to free whatever a lease may have, everywhere, as cleanSeat does.
func (s *Store) clean(l *lease, unknown bool) {
	for x := range l.nodes {
		s.cleanNode(l, x, unknown)
	}
}

// cleanSeat plans to free what a lease may have on a node. An acquire that was not
// answered there is freed behind once more when it can't take effect any longer;
// and only then if the caller is told that nobody knows (unknown), who frees by
// itself, or tries again: a release without an answer would bar it from the node.
func (s *Store) cleanNode(l *lease, node int, unknown bool) {
	switch seat := &l.nodes[node]; {
	case seat.confirmed != 0, seat.asked != 0 && !unknown:
		s.plan(node, cleanup{lease: l, epoch: l.epoch, due: s.age()})
	case seat.asked != 0:
		s.plan(node, cleanup{
			lease: l, epoch: l.epoch,
			due: seat.asked + s.nodes[node].store.Settle(),
		})
	}
}

// plan gives a node's cleaner something to do.
func (s *Store) plan(node int, job cleanup) {
	c := s.cleaners[node]
	if s.background.Err() != nil || len(c.planned) >= maxPlanned {
		job.lease.nodes[node].clear()
		s.forget(job.lease)
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
		case <-c.s.background.Done():
		}
	}
}

// take returns what is due and still wanted, or else how long to
// wait: negative if there is nothing left to wait for.
func (c *cleaner) take() (batch []cleanup, holds []renewer.Hold, next time.Duration) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.age()
	over := s.background.Err() != nil
	n := 0
	for ; n < len(c.planned) && len(batch) < maxReleaseBatch; n++ {
		job := c.planned[n]
		l := job.lease
		if over || l.epoch != job.epoch {
			if over {
				l.nodes[c.node].clear()
				s.forget(l)
			}
			continue
		}
		if job.due > age {
			break
		}
		l.nodes[c.node].freeing++
		batch = append(batch, job)
		// What nobody wants has used no token, or was released with the last one that it had used.
		holds = append(holds, renewer.Hold{
			Name: l.key.name, Owner: l.key.owner, TTL: l.ttl,
			Used: max(l.used, 1),
		})
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
func (c *cleaner) free(batch []cleanup, holds []renewer.Hold) {
	s := c.s
	node := s.nodes[c.node].store
	ctx, cancel := context.WithTimeout(s.background, max(minPatience, node.Settle()))
	answers := node.Release(ctx, holds)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, job := range batch {
		status := renewer.StatusUnknown
		if len(answers) == len(batch) {
			status = answers[i].Status
		}
		s.freed(c.node, job.lease, status, job.last)
	}
}

// freed books the answer to a release on a node that was counted in
// the seat's freeing, and plans what is left to do.
func (s *Store) freed(node int, l *lease, status renewer.Status, last bool) {
	seat, settle, age := &l.nodes[node], s.nodes[node].store.Settle(), s.age()
	seat.freeing--
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
	if status == renewer.StatusUnknown {
		seat.unsafeUntil = max(seat.unsafeUntil, age+settle)
	} else {
		seat.refuse(s.clock.now())
	}
	switch {
	case l.granted, l.asking > 0:
		return // somebody else's affair by now
	case seat.late && seat.freeing == 0:
		seat.late, seat.confirmed = false, 1 // it may be there, so that the lease is not forgotten
		s.plan(node, cleanup{lease: l, epoch: l.epoch, due: age})
		return
	case seat.asked != 0 && age < seat.asked+settle:
		s.plan(node, cleanup{lease: l, epoch: l.epoch, due: seat.asked + settle, last: last ||
			status == renewer.StatusUnknown})
		return
	case status == renewer.StatusUnknown && !last:
		s.plan(node, cleanup{
			lease: l, epoch: l.epoch, due: age + max(settle, minPatience),
			last: true,
		})
		return
	}
	seat.clear()
	s.forget(l)
}
