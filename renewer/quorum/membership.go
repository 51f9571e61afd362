package quorum

import (
	"context"
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

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// A program in use announces every membershipEvery on each node which nodes it has. The
	// announcement is forgotten after membershipTTL.
	membershipEvery = 20 * time.Second
	membershipTTL   = time.Minute
	// membershipName is the lock that carries it, a name that the engine refuses to callers (see
	// renewer.CheckName). Programs of other versions use it beside this one, so it never changes.
	membershipName = "\x00lockbeat quorum"
)

// membership compares the nodes of this program with those of others. It is a lock on every node.
// Invariant: its owner token is the same in all programs that have the same nodes, so that they
// all hold it. Another quorum is refused it, and reads who has it.
type membership struct {
	nodes  *nodeSet
	owner  string
	holder store.Holder
	logger *slog.Logger

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
		logger: c.logger,
		mixed:  make([]error, len(names)),
	}
}

func (m *membership) claim() store.Claim {
	return store.Claim{Name: membershipName, Owner: m.owner, TTL: membershipTTL, Holder: m.holder}
}

// announce says on every node which nodes this program has. It returns, by node, what failed, and
// that it belongs to another quorum.
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

// check is the error with which nothing is granted: another quorum has been seen.
func (m *membership) check() error {
	m.recheckSoon()
	m.mu.Lock()
	defer m.mu.Unlock()
	if mixed := errors.Join(m.mixed...); mixed != nil {
		return fmt.Errorf("%w: %w", renewer.ErrRejected, mixed)
	}
	return nil
}

// recheckSoon announces again, in the background and now and then, which nodes this program has:
// others may have started since.
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
		m.logger.Error("locks are refused: programs differ in the nodes of their quorum",
			slog.Any("error", now))
	}
}
