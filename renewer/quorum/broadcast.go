package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// leastPatience is how long at least a node is waited for in the background, when
	// its answer does not matter any more to the caller but what it has done does.
	minPatience = time.Second
	// mostLate is how many calls of a node and kind may be late at once: those that nobody waits
	// for any more. A node that hangs costs that many goroutines at most, and is asked again when
	// some have come back.
	maxLate = 1024
)

// kind is what a call is counted with when it is late: a node that is slow for a crowd of
// acquires is still asked for heartbeats and releases.
type kind uint8

const (
	other kind = iota
	acquires
	kinds
)

var errBacklog = errors.New("not asked: it has not answered lately")

// poll asks all nodes at once. Each has a goroutine, answers of its own, and a
// share in the items, which nobody changes any more. The caller hears replies
// until it knows enough; what comes later goes to late, in the node's goroutine.
type broadcast[A any] struct {
	s *Store
	//nolint:containedctx // of the questions, which outlast the call that asks
	ctx     context.Context
	cancel  context.CancelFunc
	replies chan reply[A]
	late    func(reply[A])
	kind    kind
	sent    instant       // before any was asked
	age     time.Duration // the same by Store.age
	hurry   *time.Timer   // when to wait no longer; nil: not yet

	mu      sync.Mutex
	heard   []bool
	pending int
	over    bool
	limit   *time.Timer
	closing func() bool // forgets that Close ends the poll; nil until it is over
}

// reply is one node's. Its answers are those to the items that it was
// asked: all, unless items names fewer.
type reply[A any] struct {
	node    int
	items   []int
	answers []A
}

// each calls f for every item with its answer.
func (r reply[A]) each(f func(item int, a *A)) {
	for j := range r.answers {
		i := j
		if r.items != nil {
			i = r.items[j]
		}
		f(i, &r.answers[j])
	}
}

// newPoll prepares a poll. The questions have the values of ctx, but do not end with
// it: what a slow node does must be known when the caller already has what it came for.
func newBroadcast[A any](
	ctx context.Context, s *Store, late func(*broadcast[A], reply[A]),
) *broadcast[A] {
	n := len(s.nodes)
	p := &broadcast[A]{s: s, replies: make(chan reply[A], n), heard: make([]bool, n), pending: n}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.late = func(r reply[A]) { late(p, r) }
	p.age, p.sent = s.age(), s.clock.now()
	return p
}

// ask puts n items to a node by call. fail makes the answer to one that could not be put.
func (p *broadcast[A]) ask(
	node int, items []int, n int, call func(context.Context, renewer.Store) []A, fail func(error) A,
) {
	to := &p.s.nodes[node]
	if n == 0 {
		p.deliver(reply[A]{node: node})
		return
	}
	if to.late[p.kind].Load() >= maxLate {
		p.deliver(reply[A]{node, items, repeat(n, fail(errBacklog))})
		return
	}
	go func() {
		answers := call(p.ctx, to.store)
		if len(answers) != n {
			answers = repeat(n,
				fail(fmt.Errorf("%w: %d answers to %d questions", errStrange, len(answers), n)))
		}
		p.deliver(reply[A]{node, items, answers})
	}()
}

func repeat[A any](n int, a A) []A {
	all := make([]A, n)
	for i := range all {
		all[i] = a
	}
	return all
}

func (p *broadcast[A]) deliver(r reply[A]) {
	p.mu.Lock()
	over := p.over
	if !over {
		p.heard[r.node] = true
		p.replies <- r // there is room for all
	}
	p.pending--
	if p.pending == 0 {
		p.cancel()
		if p.limit != nil {
			p.limit.Stop()
			p.closing()
		}
	}
	p.mu.Unlock()
	if over {
		p.s.nodes[r.node].late[p.kind].Add(-1)
		p.late(r)
	}
}

// listen gives merge the replies as they come, until it says that they are enough, all nodes have
// answered, ctx ends or the time set by within is over. The error is that of ctx, if that is why.
func (p *broadcast[A]) listen(ctx context.Context, merge func(reply[A]) (enough bool)) error {
	var hurry <-chan time.Time
	defer func() {
		if p.hurry != nil {
			p.hurry.Stop()
		}
	}()
	for range p.heard {
		if p.hurry != nil {
			hurry = p.hurry.C
		}
		select {
		case r := <-p.replies:
			if !merge(r) {
				continue
			}
			p.end(false, merge)
			return nil
		case <-hurry:
			p.end(false, merge)
			return nil
		case <-ctx.Done():
			p.end(true, merge)
			return ctx.Err()
		}
	}
	return nil
}

// within limits how much longer listen waits.
func (p *broadcast[A]) within(d time.Duration) {
	if p.hurry == nil {
		p.hurry = time.NewTimer(d)
	}
}

// end lets the caller go, with what has come in meanwhile. Nodes that
// have not answered go on for a while in the background, or are given up.
func (p *broadcast[A]) end(giveUp bool, merge func(reply[A]) bool) {
	p.mu.Lock()
	p.over = true
	patience := minPatience
	for x, heard := range p.heard {
		if !heard {
			p.s.nodes[x].late[p.kind].Add(1)
			patience = max(patience, p.s.nodes[x].store.Settle())
		}
	}
	switch {
	case p.pending == 0:
	case giveUp:
		p.cancel()
	default:
		p.limit = time.AfterFunc(patience, p.cancel)
		p.closing = context.AfterFunc(p.s.background, p.cancel)
	}
	p.mu.Unlock()
	for len(p.replies) > 0 {
		merge(<-p.replies)
	}
}
