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
)

const (
	// A program in use says every rosterEvery on each node which
	// nodes it has; what it said is forgotten after rosterTTL.
	membershipEvery = 20 * time.Second
	membershipTTL   = time.Minute
	// rosterName is the name under which it is said: one that the engine refuses to callers (see
	// renewer.CheckName). Programs of other versions use it beside this one, so it never changes.
	membershipName = "\x00lockbeat quorum"
)

// roster compares the nodes of this program with those of others. It is a lock on every
// node, whose owner token is the same for all programs that have the same nodes and
// options, so that they all hold it. Another quorum's is refused it, and reads who has it.
type membership struct {
	owner  string
	holder renewer.Holder
	logger *slog.Logger

	mu    sync.Mutex // guards what follows
	due   time.Duration
	mixed []error // by node: whose it was when it last answered; nil if ours
}

func newMembership(c settings, write int) *membership {
	names := slices.Sorted(slices.Values(c.names))
	text := fmt.Sprintf("%d of %s", write, strings.Join(names, ", "))
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q", write, names))
	node, _ := os.Hostname() // a host without a name is shown by its process number alone
	return &membership{
		owner:  base64.RawURLEncoding.EncodeToString(sum[:])[:renewer.OwnerLen],
		holder: renewer.Holder{Node: node, PID: os.Getpid(), Operation: text},
		logger: c.logger,
		mixed:  make([]error, len(names)),
	}
}

func (r *membership) claim() renewer.Claim {
	return renewer.Claim{Name: membershipName, Owner: r.owner, TTL: membershipTTL, Holder: r.holder}
}

// show says on every node which nodes this program has, if they have names.
// It returns, by node, what failed, and that it belongs to another quorum.
func (s *Store) announce(ctx context.Context) (errs, mixed []error) {
	var claims []renewer.Claim
	if s.membership != nil {
		claims = append(claims, s.membership.claim())
	}
	grants := s.each(ctx, func(int) []renewer.Claim { return claims })
	errs, mixed = make([]error, len(s.nodes)), make([]error, len(s.nodes))
	for x, g := range grants {
		switch {
		case g == nil:
			errs[x] = errSilent
		case g[0].Status == renewer.StatusUnknown:
			errs[x] = orStrange(g[0].Err)
		case g[0].Status == renewer.StatusTaken:
			mixed[x] = s.differs(x, g[0].Holder)
		}
	}
	return errs, mixed
}

// differs says whose quorum a node belongs to.
func (s *Store) differs(node int, other renewer.Holder) error {
	return fmt.Errorf("%w: %s is used by %s, but this program needs %s; give all programs that "+
		"share locks the same nodes, names and options",
		ErrMixed, s.nodes[node].name, other, s.membership.holder.Operation)
}

// mixed is the error with which nothing is granted: another quorum has been seen.
func (s *Store) mixed() error {
	if s.membership == nil {
		return nil
	}
	s.recheckSoon()
	s.membership.mu.Lock()
	defer s.membership.mu.Unlock()
	if mixed := errors.Join(s.membership.mixed...); mixed != nil {
		return fmt.Errorf("%w: %w", renewer.ErrRejected, mixed)
	}
	return nil
}

// compare says again, in the background and now and then, which nodes
// this program has: others may have started since.
func (s *Store) recheckSoon() {
	r := s.membership
	if r == nil || s.background.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := s.age(); age >= r.due {
		r.due = age + membershipEvery
		go s.recheck()
	}
}

func (s *Store) recheck() {
	ctx, cancel := context.WithTimeout(s.background, checkTimeout)
	defer cancel()
	errs, mixed := s.announce(ctx)
	r := s.membership
	r.mu.Lock()
	was := errors.Join(r.mixed...)
	for x, err := range errs {
		if err == nil { // else it is as it was, for all we know
			r.mixed[x] = mixed[x]
		}
	}
	now := errors.Join(r.mixed...)
	r.mu.Unlock()
	if was == nil && now != nil {
		r.logger.Error("locks are refused: programs differ in the nodes of their quorum",
			slog.Any("error", now))
	}
}
