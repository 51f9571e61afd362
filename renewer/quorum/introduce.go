package quorum

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// probeName is a lock by which a server that is there twice is found. No program uses it
	// for anything else.
	probeName = "\x00lockbeat quorum probe"
	// probeTTL outlives New.
	probeTTL = 5 * time.Second
)

// introduce looks at the nodes for New: whether two are the same server, or one belongs to another
// quorum. If so it leaves nothing behind.
func (m *membership) introduce(ctx context.Context) error {
	nonce := rand.Text()
	owners := make([]string, len(m.nodes.all))
	grants := acquireEach(ctx, m.nodes, func(x int) []store.Claim {
		owners[x] = rand.Text()[:store.OwnerLen]
		holder := m.holder
		holder.Trace = fmt.Sprint(nonce, " ", x)
		return []store.Claim{
			{Name: probeName, Owner: owners[x], TTL: probeTTL, Holder: holder},
			m.claim(),
		}
	})
	errs, fault := make([]error, len(grants)), error(nil)
	for x, g := range grants {
		var mixed error
		if errs[x], mixed = m.verdict(x, g, 1); errs[x] == nil {
			fault = errors.Join(fault, mixed, m.twice(x, g[0].Holder, nonce))
		}
	}
	m.withdraw(ctx, owners, fault != nil)
	if fault != nil {
		return fmt.Errorf("quorum: %w: %w", renewer.ErrConfig, fault)
	}
	m.mu.Lock()
	m.due = m.nodes.age() + membershipEvery
	m.mu.Unlock()
	if err := checkMajority(ctx, m.nodes, errs); err != nil {
		m.logger.Warn("too few nodes of the lock quorum can be reached; locks wait for them",
			slog.Any("error", err))
	}
	return nil
}

// twice is the error if a node's probe is held by another of our nodes.
func (m *membership) twice(node int, holder store.Holder, nonce string) error {
	var other int
	if n, _ := fmt.Sscanf(holder.Trace, nonce+" %d", &other); n == 0 || other >= len(m.nodes.all) {
		return nil
	}
	return fmt.Errorf("%s and %s are the same server; give each once",
		m.nodes.all[min(node, other)].name, m.nodes.all[max(node, other)].name)
}

// withdraw frees what introduce has taken. What can't be freed lapses.
func (m *membership) withdraw(ctx context.Context, owners []string, all bool) {
	askEach(ctx, m.nodes, func(x int) (int, call[store.Answer]) {
		holds := []store.Hold{{Name: probeName, Owner: owners[x], TTL: probeTTL}}
		if all { // other programs of the same quorum announce it again soon
			holds = append(holds,
				store.Hold{Name: membershipName, Owner: m.owner, TTL: membershipTTL})
		}
		return len(holds), func(ctx context.Context, node store.Proposer) []store.Answer {
			return node.Release(ctx, holds)
		}
	}, unanswered)
}
