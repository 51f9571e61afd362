package script

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Store is a scripted store.Store. All its methods may be called concurrently;
// [New] makes one.
type Store struct {
	mu       sync.Mutex // guards what follows
	scripts  map[Op][]Step
	defaults map[Op]Step
	calls    []Call
	table    table
	records  records
	watchers []*watcher
	muted    bool
	settle   time.Duration
}

var _ contract.Proposer = (*Store)(nil)

// Engine is for renewer.New. A type that embeds a Store, to change an answer,
// has one of its own.
func (s *Store) Engine() store.Store { return s }

// Call is one call of a store.
type Call struct {
	Op Op
	// At is when the store was called.
	At time.Time
	// Context is the call's, for its values.
	Context context.Context //nolint:containedctx // a record of what was called
	// Deadline is that of the call's context; zero without one.
	Deadline time.Time
	// Claims are the items of an Acquire.
	Claims []store.Claim
	// Proposals are the items of a Propose, which counts as an Acquire of these
	// Claims.
	Proposals []contract.Proposal
	// Holds are the items of a Renew or a Release.
	Holds []store.Hold
	// Names are the items of a Read.
	Names []string
	// Terms are the items of a Prepare.
	Terms []store.Term
	// Records are the items of a Write.
	Records []store.Record
}

// New returns a store in which nothing is held and every call is answered by
// [Pass].
func New() *Store {
	return &Store{
		scripts:  make(map[Op][]Step),
		defaults: make(map[Op]Step),
		table:    make(table),
		records:  make(records),
	}
}

// Script appends steps to op's list: each answers one call, in order.
func (s *Store) Script(op Op, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[op] = append(s.scripts[op], steps...)
}

// Default sets the step that answers calls of op once its list is
// used up. It is Pass in a new store.
func (s *Store) Default(op Op, step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.defaults[op] = step
}

// Calls returns the calls of op so far, in order, those still unanswered
// included.
func (s *Store) Calls(op Op) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []Call
	for _, c := range s.calls {
		if c.Op == op {
			calls = append(calls, c)
		}
	}
	return calls
}

// Left returns how many steps of op's list no call has taken yet.
func (s *Store) Left(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.scripts[op])
}

// SetSettle sets what Settle returns. It is 0 in a new store.
func (s *Store) SetSettle(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle = d
}

// Settle returns what SetSettle has set.
func (s *Store) Settle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settle
}

// Acquire answers by the script: see [store.Store].
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := s.play(ctx, Call{Op: Acquire, Claims: slices.Clone(claims)}, len(claims))
	for i := range grants {
		if grants[i].Holder == foreigner {
			grants[i].Holder, grants[i].Foreign = store.Holder{}, true
		}
	}
	return grants
}

// Propose answers by the script, as [Acquire]: see [contract.Proposer].
func (s *Store) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	call := Call{Op: Acquire, Proposals: slices.Clone(proposals)}
	for i := range proposals {
		call.Claims = append(call.Claims, proposals[i].Claim)
	}
	return s.play(ctx, call, len(proposals))
}

// Renew answers by the script, and wakes those who watch what it finds gone:
// see [store.Store].
func (s *Store) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return toAnswers(s.play(ctx, Call{Op: Renew, Holds: slices.Clone(holds)}, len(holds)))
}

// Release answers by the script, and wakes those who watch what it has freed,
// or found gone: see [store.Store].
func (s *Store) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	return toAnswers(s.play(ctx, Call{Op: Release, Holds: slices.Clone(holds)}, len(holds)))
}

func toAnswers(grants []store.Grant) []store.Answer {
	answers := make([]store.Answer, len(grants))
	for i, g := range grants {
		answers[i] = store.Answer{Status: g.Status, Err: g.Err, Broken: brokenBy(g)}
		if g.Status == store.StatusHeld {
			answers[i].Age = g.TTL // see Step.Aged
		}
		if g.Status == store.StatusTaken {
			answers[i].Foreign = g.Holder == foreigner
			if g.Holder != foreigner && g.Holder != (store.Holder{}) {
				answers[i].Holder = &g.Holder
			}
		}
	}
	return answers
}

// play records a call of n items and answers it by the next step.
func (s *Store) play(ctx context.Context, call Call, n int) []store.Grant {
	var freed []string
	return perform(ctx, s, call, n, func(err error) store.Grant {
		return store.Grant{Err: err}
	},
		func(i int, a answer, now time.Time) store.Grant {
			g, free := s.table.apply(call, i, a, now)
			if free {
				freed = append(freed, call.Holds[i].Name)
			}
			return g
		}, func() { s.freed(freed) })
}

// perform records a call of n items and answers it by the next step:
// each item by apply, under the lock, and then calls done.
func perform[A any](
	ctx context.Context, s *Store, call Call, n int,
	unknown func(error) A, apply func(i int, a answer, now time.Time) A, done func(),
) []A {
	all := func(err error) []A {
		answers := make([]A, n)
		for i := range answers {
			answers[i] = unknown(err)
		}
		return answers
	}
	step := s.take(ctx, call)
	if err := wait(ctx, step.slow); err != nil {
		return all(err)
	}
	answers := make([]A, n)
	s.mu.Lock()
	now := time.Now()
	for i := range answers {
		answers[i] = apply(i, step.of(i), now)
	}
	s.mu.Unlock()
	done()
	if step.noReply {
		<-ctx.Done()
		return all(ctx.Err())
	}
	if err := wait(ctx, step.late); err != nil {
		return all(err)
	}
	return answers
}

// take records the call and takes its step.
func (s *Store) take(ctx context.Context, call Call) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.At = time.Now()
	call.Context = ctx
	call.Deadline, _ = ctx.Deadline()
	s.calls = append(s.calls, call)
	steps := s.scripts[call.Op]
	if len(steps) == 0 {
		return s.defaults[call.Op]
	}
	s.scripts[call.Op] = steps[1:]
	return steps[0]
}

// wait returns nil after d, or the context's error if that ends first, or has
// ended.
func wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
