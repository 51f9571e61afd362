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

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// checkTimeout bounds what New asks.
	checkTimeout = time.Second
	// A program in use says every rosterEvery on each node which nodes it has; what it said is forgotten after rosterTTL.
	rosterEvery = 20 * time.Second
	rosterTTL   = time.Minute
	// The names under which it is said. They begin with a byte that names of locks do not have in practice.
	rosterName = "\x00lockbeat quorum"
	probeName  = "\x00lockbeat quorum probe"
	// probeTTL outlives New.
	probeTTL = 5 * time.Second
)

// roster compares the nodes of this program with those of others. It is a lock on every node, whose owner token is the same
// for all programs that have the same nodes and options, so that they all hold it. Another quorum's is refused it, and reads
// who has it.
type roster struct {
	owner  string
	holder renewer.Holder
	logger *slog.Logger

	mu    sync.Mutex // guards what follows
	due   time.Duration
	mixed error
}

func newRoster(c settings, write int) *roster {
	names := slices.Sorted(slices.Values(c.names))
	text := fmt.Sprintf("%d of %s", write, strings.Join(names, ", "))
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q", write, names))
	node, _ := os.Hostname() // a host without a name is shown by its process number alone
	return &roster{
		owner:  base64.RawURLEncoding.EncodeToString(sum[:])[:renewer.OwnerLen],
		holder: renewer.Holder{Node: node, PID: os.Getpid(), Operation: text},
		logger: c.logger,
	}
}

func (r *roster) claim() renewer.Claim {
	return renewer.Claim{Name: rosterName, Owner: r.owner, TTL: rosterTTL, Holder: r.holder}
}

// Check asks every node, and returns an error that is [renewer.ErrUnavailable] if fewer answer than a grant needs, and
// [ErrMixed] if one is used by another quorum. It holds nothing afterwards. Use it where a program should rather not start
// than wait. It returns when all have answered, or ctx ends.
func (s *Store) Check(ctx context.Context) error {
	errs, mixed := s.show(ctx)
	return errors.Join(mixed, s.majority(ctx, errs))
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
	return fmt.Errorf("%w: %w", renewer.ErrUnavailable, s.unreachable(ctx, "check", s.write, 0, errs))
}

// show says on every node which nodes this program has, if they have names. It returns each node's failure, and whether one
// belongs to another quorum.
func (s *Store) show(ctx context.Context) (errs []error, mixed error) {
	var claims []renewer.Claim
	if s.roster != nil {
		claims = append(claims, s.roster.claim())
	}
	grants := s.each(ctx, func(int) []renewer.Claim { return claims })
	errs = make([]error, len(s.nodes))
	for x, g := range grants {
		switch {
		case g == nil:
			errs[x] = errSilent
		case g[0].Status == renewer.Unknown:
			errs[x] = orStrange(g[0].Err)
		case g[0].Status == renewer.Taken:
			mixed = errors.Join(mixed, s.differs(x, g[0].Holder))
		}
	}
	return errs, mixed
}

// differs says whose quorum a node belongs to.
func (s *Store) differs(node int, other renewer.Holder) error {
	return fmt.Errorf("%w: %s is used by %s, but this program needs %s; give all programs that share locks the same nodes, names and options",
		ErrMixed, s.nodes[node].name, other, s.roster.holder.Operation)
}

// each puts claims to every node directly, by no ballot. A node that has not answered when ctx ends has nil.
func (s *Store) each(ctx context.Context, claims func(node int) []renewer.Claim) [][]renewer.Grant {
	p := newPoll(ctx, s, func(*poll[renewer.Grant], reply[renewer.Grant]) {})
	for x := range s.nodes {
		ask := claims(x)
		call := func(ctx context.Context, node renewer.Store) []renewer.Grant { return node.Acquire(ctx, ask) }
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
	answers := node.Renew(ctx, []renewer.Hold{{Name: rosterName, Owner: strings.Repeat("0", renewer.OwnerLen), TTL: time.Millisecond}})
	grants := make([]renewer.Grant, len(answers))
	for i, a := range answers {
		grants[i] = renewer.Grant{Err: a.Err}
		if a.Status != renewer.Unknown {
			grants[i].Status = renewer.Mine
		}
	}
	return grants
}

// introduce is New's look at the nodes: whether two are the same server, or one belongs to another quorum. If so nothing is left
// behind.
func (s *Store) introduce(ctx context.Context) error {
	nonce := rand.Text()
	owners := make([]string, len(s.nodes))
	grants := s.each(ctx, func(x int) []renewer.Claim {
		owners[x] = rand.Text()[:renewer.OwnerLen]
		holder := s.roster.holder
		holder.Trace = fmt.Sprint(nonce, " ", x)
		return []renewer.Claim{
			{Name: probeName, Owner: owners[x], TTL: probeTTL, Holder: holder},
			s.roster.claim(),
		}
	})
	errs := make([]error, len(s.nodes))
	var fault error
	for x, g := range grants {
		if g == nil {
			errs[x] = errSilent
			continue
		}
		if g[1].Status == renewer.Unknown {
			errs[x] = orStrange(g[1].Err)
			continue
		}
		if g[1].Status == renewer.Taken {
			fault = errors.Join(fault, s.differs(x, g[1].Holder))
		}
		var other int
		if _, err := fmt.Sscanf(g[0].Holder.Trace, nonce+" %d", &other); err == nil && other < len(s.nodes) {
			fault = errors.Join(fault, fmt.Errorf("%s and %s are the same server; give each once", s.nodes[min(x, other)].name, s.nodes[max(x, other)].name))
		}
	}
	s.depart(ctx, owners, fault != nil)
	if fault != nil {
		return fmt.Errorf("quorum: %w: %w", renewer.ErrConfig, fault)
	}
	s.roster.mu.Lock()
	s.roster.due = s.age() + rosterEvery
	s.roster.mu.Unlock()
	if err := s.majority(ctx, errs); err != nil {
		s.roster.logger.Warn("too few nodes of the lock quorum can be reached; locks wait for them", slog.Any("error", err))
	}
	return nil
}

// depart frees what introduce has taken.
func (s *Store) depart(ctx context.Context, owners []string, all bool) {
	p := newPoll(ctx, s, func(*poll[renewer.Answer], reply[renewer.Answer]) {})
	for x := range s.nodes {
		holds := []renewer.Hold{{Name: probeName, Owner: owners[x], TTL: probeTTL}}
		if all { // other programs of the same quorum say it again soon
			holds = append(holds, renewer.Hold{Name: rosterName, Owner: s.roster.owner, TTL: rosterTTL})
		}
		p.ask(x, nil, len(holds), func(ctx context.Context, node renewer.Store) []renewer.Answer { return node.Release(ctx, holds) }, unanswered)
	}
	_ = p.listen(ctx, func(reply[renewer.Answer]) bool { return false }) // what can't be freed lapses
}

// mixed is the error with which nothing is granted: another quorum has been seen.
func (s *Store) mixed() error {
	if s.roster == nil {
		return nil
	}
	s.compare()
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	if s.roster.mixed == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", renewer.ErrRejected, s.roster.mixed)
}

// compare says again, in the background and now and then, which nodes this program has: others may have started since.
func (s *Store) compare() {
	r := s.roster
	if r == nil || s.background.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := s.age(); age >= r.due {
		r.due = age + rosterEvery
		go s.recompare()
	}
}

func (s *Store) recompare() {
	ctx, cancel := context.WithTimeout(s.background, checkTimeout)
	defer cancel()
	_, mixed := s.show(ctx)
	r := s.roster
	r.mu.Lock()
	was := r.mixed
	r.mixed = mixed
	r.mu.Unlock()
	if was == nil && mixed != nil {
		r.logger.Error("locks are refused: programs differ in the nodes of their quorum", slog.Any("error", mixed))
	}
}
