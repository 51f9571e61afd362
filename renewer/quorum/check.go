package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// check is [Store.Check].
func (s *engine) check(ctx context.Context) error {
	var errs, mixed []error
	if s.membership != nil {
		errs, mixed = s.membership.announce(ctx)
	} else {
		errs = pingEach(ctx, s.nodes)
	}
	return errors.Join(append(mixed, checkMajority(ctx, s.nodes, errs))...)
}

// pingEach asks each node to renew what no owner has. It returns, by node, what
// failed.
func pingEach(ctx context.Context, nodes *nodeSet) []error {
	holds := []store.Hold{{
		Name: membershipName, Owner: strings.Repeat("0", store.OwnerLen), TTL: time.Millisecond,
	}}
	answers := askEach(ctx, nodes, func(int) (int, call[store.Answer]) {
		return len(holds), func(ctx context.Context, node contract.Proposer) []store.Answer {
			return node.Renew(ctx, holds)
		}
	}, unanswered)
	errs := make([]error, len(answers))
	for x, a := range answers {
		switch {
		case a == nil:
			errs[x] = errSilent
		case a[0].Status == store.StatusUnknown:
			errs[x] = orStrange(a[0].Err)
		}
	}
	return errs
}

// checkTimeout bounds what is asked of the nodes for New, and later in the
// background.
const checkTimeout = time.Second

// checkMajority is the error if too few nodes have answered for a grant. errs
// has nil for a node that answered.
func checkMajority(ctx context.Context, nodes *nodeSet, errs []error) error {
	m := newMajority(len(nodes.all))
	for _, err := range errs {
		if err != nil {
			m.count(store.StatusUnknown)
		}
	}
	if !m.unavailable() {
		return nil
	}
	return fmt.Errorf("%w: %w", renewer.ErrUnavailable,
		newUnreachable(ctx, "check", nodes, newMajority(len(nodes.all)), errs))
}

// acquireEach puts claims of its own to each node, each decided alone. A node
// that has not answered when ctx ends has nil.
func acquireEach(
	ctx context.Context, nodes *nodeSet, claims func(node int) []store.Claim,
) [][]store.Grant {
	return askEach(ctx, nodes, func(x int) (int, call[store.Grant]) {
		ask := claims(x)
		return len(ask), func(ctx context.Context, node contract.Proposer) []store.Grant {
			return node.Acquire(ctx, ask)
		}
	}, ungranted)
}

// askEach asks each node something of its own, and waits until all have
// answered or ctx ends.
func askEach[A any](
	ctx context.Context, nodes *nodeSet,
	question func(node int) (n int, call call[A]),
	fail func(error) A,
) [][]A {
	p := newBroadcast(ctx, nodes, func(*broadcast[A], reply[A]) {})
	for x := range nodes.all {
		n, call := question(x)
		p.ask(x, nil, n, call, fail)
	}
	answers := make([][]A, len(nodes.all))
	// a node that has not answered when ctx ends is told by its nil
	_ = p.listen(ctx, func(r reply[A]) bool {
		answers[r.node] = r.answers
		return false
	})
	return answers
}
