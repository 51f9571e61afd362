// Package asking is what the engine knows of questions to the store: for how
// long one may take, whose answers count, on which shard a name is, and whether
// a shard answers at all. It knows no lease.
package asking

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Requests limits the questions to the store that end with no caller's context.
// Its methods may be called concurrently.
//
// What it holds true: a question that begins now gets a context that ends after
// at most timeout, and after at least fifteen sixteenths of it unless End is
// called.
type Requests struct {
	timeout time.Duration
	clock   *timing.Clock
	life    context.Context // the parent of all of them
	cancel  context.CancelFunc
	latest  atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of questions that begin at about the same time.
// One of its own takes five allocations and a timer for each: see
// docs/design.md.
type sharedDeadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  timing.Instant // questions that begin later need another
}

// NewRequests returns what limits each question to timeout.
func NewRequests(timeout time.Duration, clock *timing.Clock) *Requests {
	r := &Requests{timeout: timeout, clock: clock}
	r.life, r.cancel = context.WithCancel(context.Background())
	return r
}

// End ends all questions, those that begin later too.
func (r *Requests) End() { r.cancel() }

// Limit is the context of a question that begins now.
func (r *Requests) Limit() context.Context {
	now := r.clock.AtMost()
	shared := r.latest.Load()
	if shared != nil && now < shared.until {
		return shared.ctx
	}
	fresh := &sharedDeadline{until: now.Add(r.timeout / 16)}
	fresh.ctx, fresh.cancel = context.WithTimeout(r.life, r.timeout)
	if !r.latest.CompareAndSwap(shared, fresh) {
		fresh.cancel()
		return r.latest.Load().ctx
	}
	return fresh.ctx // the former ends by itself
}

// Limited is Limit with the values of ctx. It does not end with ctx: no caller
// waits for the answer, or the caller's end must not matter.
func (r *Requests) Limited(ctx context.Context) context.Context {
	if ctx == context.Background() {
		return r.Limit()
	}
	return &Valued{r.Limit(), ctx}
}

// Valued is one context's end with another's values.
type Valued struct {
	context.Context

	Values context.Context //nolint:containedctx // that is what it is for
}

// Value asks the end first: by it the context package finds its own.
func (c *Valued) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.Values.Value(key)
}

// AnswerTo gives the answer to item i of n, if the store has kept its contract
// and given n of them. Otherwise, and if it is unknown without a reason, its
// Err says so.
func AnswerTo(answers []store.Answer, i, n int) store.Answer {
	if len(answers) != n {
		return store.Answer{Err: errCount(len(answers), n)}
	}
	a := answers[i]
	if a.Status == store.StatusUnknown {
		a.Err = orUnexplained(a.Err)
	}
	return a
}

// GrantOf is AnswerTo for claims.
func GrantOf(grants []store.Grant, i, n int) store.Grant {
	if len(grants) != n {
		return store.Grant{Err: errCount(len(grants), n)}
	}
	g := grants[i]
	if g.Status != store.StatusHeld && g.Status != store.StatusTaken &&
		g.Status != store.StatusQueued {
		g.Err = orUnexplained(g.Err)
	}
	return g
}

func errCount(answers, questions int) error {
	return fmt.Errorf("the store gave %d answers to %d questions", answers, questions)
}

func orUnexplained(err error) error {
	if err == nil {
		return errors.New("the store gave no reason")
	}
	return err
}

// IsAnswer reports whether the store has answered: an error may come from a
// server that is up, too.
func IsAnswer(status store.Status, err error) bool {
	return status != store.StatusUnknown || errors.Is(err, store.ErrRejected) ||
		errors.Is(err, store.ErrOverloaded)
}

// Single lends out slices of one question to the store, to be used again: a
// store does not touch them once it has answered.
type Single[Q any] struct{ pool sync.Pool }

// Take returns a slice with a question in it.
func (s *Single[Q]) Take(question Q) *[1]Q {
	q, ok := s.pool.Get().(*[1]Q)
	if !ok {
		q = new([1]Q)
	}
	q[0] = question
	return q
}

// Put takes a slice back, and keeps nothing of the question alive.
func (s *Single[Q]) Put(q *[1]Q) {
	clear(q[:])
	s.pool.Put(q)
}

// mostShards bounds the shards that are told apart. The store numbers them,
// maybe at random; so many cost about 12 MB.
const mostShards = 1024

// Shards tells the shards of a store apart.
type Shards struct {
	sharded contract.Sharded // nil: the store has one
}

// ShardsOf returns those of a store.
func ShardsOf(s store.Store) Shards {
	sharded, _ := s.(contract.Sharded)
	return Shards{sharded}
}

// Of is the shard of a name as the store now sees it, below mostShards. It
// calls the store.
func (s Shards) Of(name string) int {
	if s.sharded == nil {
		return 0
	}
	return int(uint(s.sharded.Shard(name)) % mostShards)
}
