package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
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

// ErrMixed means that programs use the same servers for quorums of different
// nodes: two of them could hold a lock at once. It comes with
// [renewer.ErrConfig] from [New], alone from [Store.Check], and with
// [renewer.ErrRejected] from Acquire, which grants nothing until all programs
// agree.
var ErrMixed = errors.New("quorum: programs differ in their nodes")

var (
	errBarred  = errors.New("not asked: an earlier attempt is still being freed there")
	errSilent  = errors.New("no answer yet")
	errStrange = errors.New("it gave an answer that no store may give")
	errCounter = fmt.Errorf("%w: its fence counter is at %d, so that no token can be above it; "+
		"delete it", renewer.ErrRejected, int64(math.MaxInt64))
)

// unreachable means that too many nodes gave no answer to decide anything.
type unreachable struct {
	op       string
	count    majority
	failed   []nodeError
	rejected bool  // waiting does not help: so many nodes reject every attempt
	err      error // the caller's own, if its time was up
}

type nodeError struct {
	node string
	err  error
}

func (e *unreachable) Error() string { return e.text(error.Error) }

// Nameless is Error without the names of locks: see [renewer.ErrorText].
func (e *unreachable) Nameless() string { return e.text(renewer.ErrorText) }

func (e *unreachable) text(textOf func(error) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "quorum: %s: %d of %d nodes gave no answer", e.op, len(e.failed), e.count.nodes)
	if refused := e.count.taken + e.count.gone; refused > 0 {
		fmt.Fprintf(&b, " and %d have not got the lease", refused)
	}
	fmt.Fprintf(&b, ", %d must agree", e.count.needed())
	for i, f := range e.failed {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, f.node, textOf(f.err))
	}
	return b.String()
}

// Is finds renewer.ErrRejected only if waiting can't help: the quorum does not
// reject a request because one node does.
func (e *unreachable) Is(target error) bool {
	if target == renewer.ErrRejected {
		return e.rejected
	}
	if errors.Is(e.err, target) {
		return true
	}
	for _, f := range e.failed {
		// The end of a node's request is not that of the caller.
		if target != context.Canceled && target != context.DeadlineExceeded &&
			errors.Is(f.err, target) {
			return true
		}
	}
	return false
}

// As finds the nodes' errors, the first that fits.
func (e *unreachable) As(target any) bool {
	for _, f := range e.failed {
		if errors.As(f.err, target) {
			return true
		}
	}
	return false
}

// newUnreachable makes the error from the nodes' own; a node whose error is nil
// has answered.
func newUnreachable(
	ctx context.Context, op string, nodes *nodeSet, count majority, errs []error,
) error {
	e := &unreachable{op: op, count: count, err: ctx.Err()}
	rejecting := majority{nodes: count.nodes}
	for x, err := range errs {
		if err == nil {
			continue
		}
		if errors.Is(err, errSilent) && e.err != nil {
			err = e.err // which is why
		}
		if errors.Is(err, renewer.ErrRejected) {
			rejecting.count(store.StatusUnknown)
		}
		e.failed = append(e.failed, nodeError{nodes.all[x].name, err})
	}
	e.rejected = rejecting.unavailable()
	return e
}

func orStrange(err error) error {
	if err == nil {
		return errStrange
	}
	return err
}
