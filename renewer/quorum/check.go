package quorum

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// checkTimeout bounds what New asks.
	checkTimeout = time.Second
	// probeName is a lock that nobody uses, by which a server that is there twice is found.
	probeName = "\x00lockbeat quorum probe"
	// probeTTL outlives New.
	probeTTL = 5 * time.Second
)

// Check asks every node, and returns an error that is [renewer.ErrUnavailable] if fewer answer than
// a grant needs, and [ErrMixed] if one is used by another quorum. It takes no lock. Use it where a
// program should rather not start than wait. It returns when all have answered, or ctx ends.
func (s *Store) Check(ctx context.Context) error {
	errs, mixed := s.announce(ctx)
	return errors.Join(append(mixed, s.majority(ctx, errs))...)
}

// majority is the error if too few nodes have answered.
func (s *Store) majority(ctx context.Context, errs []error) error {
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed <= len(s.nodes)-s.write {
		return nil
	}
	return fmt.Errorf("%w: %w", renewer.ErrUnavailable,
		s.unreachable(ctx, "check", s.write, 0, errs))
}

// each puts claims to every node directly, by no ballot. A node that
// has not answered when ctx ends has nil.
func (s *Store) each(ctx context.Context, claims func(node int) []renewer.Claim) [][]renewer.Grant {
	p := newBroadcast(ctx, s, func(*broadcast[renewer.Grant], reply[renewer.Grant]) {})
	for x := range s.nodes {
		ask := claims(x)
		call := func(ctx context.Context, node renewer.Store) []renewer.Grant {
			return node.Acquire(ctx, ask)
		}
		n := len(ask)
		if n == 0 { // what changes nothing, and says whether it answers
			n = 1
			call = ping
		}
		p.ask(x, nil, n, call, func(err error) renewer.Grant { return renewer.Grant{Err: err} })
	}
	grants := make([][]renewer.Grant, len(s.nodes))
	_ = p.listen(ctx, func(r reply[renewer.Grant]) bool { // whoever has not answered shows
		grants[r.node] = r.answers
		return false
	})
	return grants
}

// ping asks a node to renew what nobody has.
func ping(ctx context.Context, node renewer.Store) []renewer.Grant {
	answers := node.Renew(ctx,
		[]renewer.Hold{{
			Name: membershipName, Owner: strings.Repeat("0", renewer.OwnerLen),
			TTL: time.Millisecond,
		}})
	grants := make([]renewer.Grant, len(answers))
	for i, a := range answers {
		grants[i] = renewer.Grant{Err: a.Err}
		if a.Status != renewer.StatusUnknown {
			grants[i].Status = renewer.StatusHeld
		}
	}
	return grants
}

// introduce is New's look at the nodes: whether two are the same server,
// or one belongs to another quorum. If so nothing is left behind.
func (s *Store) introduce(ctx context.Context) error {
	nonce := rand.Text()
	owners := make([]string, len(s.nodes))
	grants := s.each(ctx, func(x int) []renewer.Claim {
		owners[x] = rand.Text()[:renewer.OwnerLen]
		holder := s.membership.holder
		holder.Trace = fmt.Sprint(nonce, " ", x)
		return []renewer.Claim{
			{Name: probeName, Owner: owners[x], TTL: probeTTL, Holder: holder},
			s.membership.claim(),
		}
	})
	errs := make([]error, len(s.nodes))
	var fault error
	for x, g := range grants {
		if g == nil {
			errs[x] = errSilent
			continue
		}
		if g[1].Status == renewer.StatusUnknown {
			errs[x] = orStrange(g[1].Err)
			continue
		}
		if g[1].Status == renewer.StatusTaken {
			fault = errors.Join(fault, s.differs(x, g[1].Holder))
		}
		var other int
		if _, err := fmt.Sscanf(g[0].Holder.Trace, nonce+" %d", &other); err == nil &&
			other < len(s.nodes) {
			fault = errors.Join(fault,
				fmt.Errorf("%s and %s are the same server; give each once",
					s.nodes[min(x, other)].name, s.nodes[max(x, other)].name))
		}
	}
	s.withdraw(ctx, owners, fault != nil)
	if fault != nil {
		return fmt.Errorf("quorum: %w: %w", renewer.ErrConfig, fault)
	}
	s.membership.mu.Lock()
	s.membership.due = s.age() + membershipEvery
	s.membership.mu.Unlock()
	if err := s.majority(ctx, errs); err != nil {
		s.membership.logger.Warn("too few nodes of the lock quorum can be reached; locks wait "+
			"for them",
			slog.Any("error", err))
	}
	return nil
}

// depart frees what introduce has taken.
func (s *Store) withdraw(ctx context.Context, owners []string, all bool) {
	p := newBroadcast(ctx, s, func(*broadcast[renewer.Answer], reply[renewer.Answer]) {})
	for x := range s.nodes {
		holds := []renewer.Hold{{Name: probeName, Owner: owners[x], TTL: probeTTL}}
		if all { // other programs of the same quorum say it again soon
			holds = append(holds,
				renewer.Hold{Name: membershipName, Owner: s.membership.owner, TTL: membershipTTL})
		}
		p.ask(x, nil, len(holds), func(ctx context.Context, node renewer.Store) []renewer.Answer {
			return node.Release(ctx, holds)
		}, unanswered)
	}
	// what can't be freed lapses
	_ = p.listen(ctx, func(reply[renewer.Answer]) bool { return false })
}
