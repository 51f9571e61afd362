package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

const (
	// minPatience is how long at least the background waits for a node whose
	// answer does not matter to the caller any more. What the node has done
	// does matter.
	minPatience = time.Second
	// maxLate is how many calls of a node and kind may be late at once. A node
	// that hangs costs that many goroutines at most, and is asked again when
	// some have come back.
	maxLate = 1024
)

var errBacklog = errors.New("not asked: it has not answered lately")

// broadcast asks all nodes at once, each in a goroutine of its own. Invariant:
// each node's reply goes either to the caller, who hears replies until it knows
// enough, or to late, in the node's goroutine. The items that nodes are asked
// about do not change any more.
type broadcast[A any] struct {
	nodes *nodeSet
	//nolint:containedctx // of the questions, which outlast the call that asks
	ctx     context.Context
	cancel  context.CancelFunc
	replies chan reply[A]
	late    func(reply[A])
	kind    kind
	sent    timing.Instant // before any was asked
	age     time.Duration  // the same by nodeSet.age
	hurry   *time.Timer    // when to wait no longer; nil: not yet

	mu      sync.Mutex // guards what follows
	heard   []bool
	pending int
	over    bool
	limit   *time.Timer
	closing func() bool // forgets that Close ends the broadcast; nil until it is over
}

// reply is one node's. Its answers are those to the items that it was asked:
// all, unless items names fewer.
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

// newBroadcast prepares a broadcast. The questions have the values of ctx, but
// do not end with it: what a slow node does matters even if the caller already
// has its answer.
func newBroadcast[A any](
	ctx context.Context, nodes *nodeSet, late func(*broadcast[A], reply[A]),
) *broadcast[A] {
	n := len(nodes.all)
	p := &broadcast[A]{
		nodes: nodes, replies: make(chan reply[A], n), heard: make([]bool, n), pending: n,
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.late = func(r reply[A]) { late(p, r) }
	p.age, p.sent = nodes.age(), nodes.clock.Now()
	return p
}

// call puts items to a node, and returns an answer to each.
type call[A any] func(ctx context.Context, node contract.Proposer) []A

// ask puts n items to a node by call. fail makes the answer to an item that
// could not be put.
func (p *broadcast[A]) ask(
	node int, items []int, n int, call call[A], fail func(error) A,
) {
	to := &p.nodes.all[node]
	if n == 0 {
		p.deliver(reply[A]{node: node})
		return
	}
	if to.late[p.kind].Load() >= maxLate {
		p.deliver(reply[A]{node, items, slices.Repeat([]A{fail(errBacklog)}, n)})
		return
	}
	go func() {
		answers := call(p.ctx, to.store)
		if len(answers) != n {
			err := fmt.Errorf("%w: %d answers to %d questions", errStrange, len(answers), n)
			answers = slices.Repeat([]A{fail(err)}, n)
		}
		p.deliver(reply[A]{node, items, answers})
	}()
}

// deliver takes a node's reply.
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
		p.nodes.all[r.node].late[p.kind].Add(-1)
		p.late(r)
	}
}

// listen gives merge the replies as they come. It returns when merge says that
// they are enough, when all nodes have answered, when the time set by within is
// over, or when ctx ends. The error is that of ctx, if that is why.
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

// within limits how much longer listen waits for the nodes that have not
// answered: for d, less what earlier callers have waited. It reports whether
// that is over for all of them.
func (p *broadcast[A]) within(d time.Duration) (over bool) {
	age, silent := p.nodes.age(), d
	p.mu.Lock()
	for x, heard := range p.heard {
		if !heard {
			silent = min(silent, p.nodes.all[x].silentFor(age))
		}
	}
	p.mu.Unlock()
	if silent < d && p.hurry == nil {
		p.hurry = time.NewTimer(d - silent)
	}
	return silent >= d
}

// end lets the caller go, with the replies that came in meanwhile. Requests
// without an answer go on for a while in the background, or end at once if
// giveUp.
func (p *broadcast[A]) end(giveUp bool, merge func(reply[A]) bool) {
	p.mu.Lock()
	p.over = true
	patience := minPatience
	for x, heard := range p.heard {
		if !heard {
			node := &p.nodes.all[x]
			node.late[p.kind].Add(1)
			if p.kind == acquires && !giveUp {
				node.silentSince.CompareAndSwap(0, int64(p.age))
			}
			patience = max(patience, p.nodes.settle(x))
		}
	}
	switch {
	case p.pending == 0:
	case giveUp:
		p.cancel()
	default:
		p.limit = time.AfterFunc(patience, p.cancel)
		p.closing = context.AfterFunc(p.nodes.background, p.cancel)
	}
	p.mu.Unlock()
	for len(p.replies) > 0 {
		merge(<-p.replies)
	}
}
