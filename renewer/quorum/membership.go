package quorum

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// A program in use announces every membershipEvery on each node which nodes
	// it has. The announcement is forgotten after membershipTTL.
	membershipEvery = 20 * time.Second
	membershipTTL   = time.Minute
	// membershipName is the lock that carries it, a name that the engine
	// refuses to callers (see renewer.CheckName). Programs of other versions
	// use it beside this one, so it never changes.
	membershipName = "\x00lockbeat quorum"
)

// membership compares the nodes of this program with those of others. It is a
// lock on every node. Invariant: its owner token is the same in all programs
// that have the same nodes, so that they all hold it. Another quorum is refused
// it, and reads who has it.
type membership struct {
	nodes  *nodeSet
	owner  string
	holder store.Holder
	log    *slog.Logger

	mu    sync.Mutex // guards what follows
	due   time.Duration
	mixed []error // by node: whose it was when it last answered; nil if ours
}

func newMembership(nodes *nodeSet, c settings) *membership {
	need, names := needed(len(c.names)), slices.Sorted(slices.Values(c.names))
	text := fmt.Sprintf("%d of %s", need, strings.Join(names, ", "))
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q", need, names))
	host, _ := os.Hostname() // a host without a name is shown by its process number alone
	return &membership{
		nodes:  nodes,
		owner:  base64.RawURLEncoding.EncodeToString(sum[:])[:store.OwnerLen],
		holder: store.Holder{Node: host, PID: os.Getpid(), Operation: text},
		log:    c.log,
		mixed:  make([]error, len(names)),
	}
}

func (m *membership) claim() store.Claim {
	return store.Claim{Name: membershipName, Owner: m.owner, TTL: membershipTTL, Holder: m.holder}
}

// announce says on every node which nodes this program has. It returns, by
// node, what failed, and that it belongs to another quorum.
func (m *membership) announce(ctx context.Context) (errs, mixed []error) {
	grants := acquireEach(ctx, m.nodes, func(int) []store.Claim {
		return []store.Claim{m.claim()}
	})
	errs, mixed = make([]error, len(grants)), make([]error, len(grants))
	for x, g := range grants {
		errs[x], mixed[x] = m.verdict(x, g, 0)
	}
	return errs, mixed
}

// verdict is what a node's answer to the announcement means.
func (m *membership) verdict(node int, grants []store.Grant, i int) (err, mixed error) {
	switch {
	case grants == nil:
		return errSilent, nil
	case grants[i].Status == store.StatusUnknown:
		return orStrange(grants[i].Err), nil
	case grants[i].Status == store.StatusTaken:
		return nil, fmt.Errorf("%w: %s is used by %s, but this program needs %s; "+
			"give all programs that share locks the same nodes and names",
			ErrMixed, m.nodes.all[node].name, grants[i].Holder, m.holder.Operation)
	}
	return nil, nil
}

// check is the error with which nothing is granted: another quorum has been
// seen.
func (m *membership) check() error {
	m.recheckSoon()
	m.mu.Lock()
	defer m.mu.Unlock()
	if mixed := errors.Join(m.mixed...); mixed != nil {
		return fmt.Errorf("%w: %w", renewer.ErrRejected, mixed)
	}
	return nil
}

// recheckSoon announces again, in the background and now and then, which nodes
// this program has: others may have started since.
func (m *membership) recheckSoon() {
	if m.nodes.closed() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := m.nodes.age(); age >= m.due {
		m.due = age + membershipEvery
		go m.recheck()
	}
}

func (m *membership) recheck() {
	ctx, cancel := context.WithTimeout(m.nodes.background, checkTimeout)
	defer cancel()
	errs, mixed := m.announce(ctx)
	m.mu.Lock()
	was := errors.Join(m.mixed...)
	for x, err := range errs {
		if err == nil { // else it is as it was, for all we know
			m.mixed[x] = mixed[x]
		}
	}
	now := errors.Join(m.mixed...)
	m.mu.Unlock()
	if was == nil && now != nil {
		m.log.Error("locks are refused: programs differ in the nodes of their quorum",
			slog.Any("error", now))
	}
}

const (
	// probeName is a lock by which a server that is there twice is found. No
	// program uses it for anything else.
	probeName = "\x00lockbeat quorum probe"
	// probeTTL outlives New.
	probeTTL = 5 * time.Second
)

// introduce looks at the nodes for New: whether two are the same server, or one
// belongs to another quorum. If so it leaves nothing behind.
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
		m.log.Warn("too few nodes of the lock quorum can be reached; locks wait for them",
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
		return len(holds), func(ctx context.Context, node contract.Proposer) []store.Answer {
			return node.Release(ctx, holds)
		}
	}, unanswered)
}

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
