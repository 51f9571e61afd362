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

const (
	// outageShards bounds what is kept. Shards that share an entry are down
	// only if all of them are.
	outageShards = 64
	// ProbePause is the time between two probes, and the longest pause of a
	// caller who waits for the store: so the end of an outage is soon seen.
	ProbePause = 500 * time.Millisecond
	// mostProbes bounds those that are under way, if they hang.
	mostProbes = 4
	// secondTry is how long callers have after the first failure, however late
	// that came: over a new connection they may be answered.
	secondTry = time.Second
)

// Outages are what is known of each shard. An error alone is no evidence that
// the store is down: under load a request runs out of time in this process,
// while others are answered. The store is down if requests fail and none is
// answered, not even the last, a [Probe] that is sent for that.
//
// What it holds true: a shard is away from when requests to it have failed for
// after, and still do, until one is answered. As long as it is away it is
// asked, though no caller does.
//
// All methods may be called concurrently. It has a lock of its own, under which
// it calls nothing of others.
type Outages struct {
	cfg     OutageConfig
	clock   *timing.Clock
	lead    time.Duration // how long before it is away a shard is asked once more
	failing atomic.Int32  // so many shards fail: if none does, no more is read

	mu     sync.Mutex // guards what follows, but for answered
	due    timing.Instant
	shards [outageShards]shard
}

type shard struct {
	answered atomic.Int64   // instant of the latest answer
	failed   timing.Instant // when the first request was sent that failed since then; 0 if none
	known    timing.Instant // when that failed
	name     string         // one of the shard, which was asked for in vain
	err      error          // why
	probed   timing.Instant // when it was last asked by a probe since it fails; 0 before
	probes   int            // under way
	away     bool           // callers were told
	// Closed when the shard is away; nil if no caller has asked for it.
	gone chan struct{}
}

// Probe is a question to a shard that fails: is it back?
type Probe struct {
	Name  string // one of the shard, or which was when it began to fail
	Shard int
}

// OutageConfig is what outages go by.
type OutageConfig struct {
	Shards  Shards
	After   time.Duration // when a shard is away that fails
	TooLate error         // why a request failed that had its time
	Due     *timing.Loop  // steps when [Outages.Due] is to be called
}

// NewOutages returns what knows of no failure yet.
func NewOutages(cfg OutageConfig, clock *timing.Clock) *Outages {
	return &Outages{
		cfg: cfg, clock: clock, lead: min(cfg.After/2, ProbePause), due: timing.Never,
	}
}

func (o *Outages) of(number int) *shard { return &o.shards[uint(number)%outageShards] }

// ShardOf is the shard of a name. It calls the store.
func (o *Outages) ShardOf(name string) int { return o.cfg.Shards.Of(name) }

// IsOn reports whether a name is on a shard that is asked.
func (o *Outages) IsOn(name string, p Probe) bool { return o.of(o.ShardOf(name)) == o.of(p.Shard) }

// Troubled reports whether any shard may be away, or on its way there.
func (o *Outages) Troubled() bool { return o.failing.Load() > 0 }

// Answered notes that a shard has answered.
func (o *Outages) Answered(number int) {
	s := o.of(number)
	s.answered.Store(int64(o.clock.AtMost()))
	if o.Troubled() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.recover(s)
	}
}

// recover ends what has failed of a shard.
func (o *Outages) recover(s *shard) {
	if s.failed == 0 {
		return
	}
	o.failing.Add(-1)
	s.failed, s.probed, s.err = 0, 0, nil
	if s.away {
		s.away, s.gone = false, nil
	}
}

// Failed notes that a request for a name was not answered that was sent to a
// shard at an instant, and why.
func (o *Outages) Failed(number int, name string, sent timing.Instant, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(o.of(number), name, sent, err)
	o.cfg.Due.WakeBy(o.due)
}

func (o *Outages) fail(s *shard, name string, sent timing.Instant, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = o.cfg.TooLate // that its time was over is our doing
	}
	first := s.failed == 0
	if first {
		o.failing.Add(1) // before the look at what was answered: see Answered
		s.failed, s.known = sent, o.clock.AtMost()
		o.due = min(o.due, o.nextProbe(s))
	}
	switch {
	case sent >= timing.Instant(s.answered.Load()):
		s.name, s.err = name, err
	case first: // others were answered meanwhile
		o.recover(s)
	}
}

// from is when a shard is away that fails.
func (o *Outages) from(s *shard) timing.Instant {
	from := max(s.failed.Add(o.cfg.After), s.known.Add(min(o.cfg.After, secondTry)))
	return max(from, s.probed.Add(o.lead))
}

func (o *Outages) isAway(s *shard, now timing.Instant) bool {
	return s.away || s.probed != 0 && now >= o.from(s)
}

// Due returns what is due at an instant: whether a shard has just gone away,
// what to ask, each to be followed by [Outages.Probed], and when it is to be
// called next.
func (o *Outages) Due(now timing.Instant) (begun bool, probes []Probe, next timing.Instant) {
	if !o.Troubled() {
		return false, nil, timing.Never
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now < o.due {
		return false, nil, o.due
	}
	o.due = timing.Never
	for i := range o.shards {
		s := &o.shards[i]
		if s.failed == 0 {
			continue
		}
		if !s.away && o.isAway(s, now) {
			s.away, begun = true, true
			close(s.whenGone())
		}
		next := o.nextProbe(s)
		if next <= now {
			s.probed = now
			if s.probes < mostProbes || !s.away {
				s.probes++
				probes = append(probes, Probe{Name: s.name, Shard: i})
			}
			next = o.nextProbe(s)
		}
		if !s.away {
			next = min(next, o.from(s))
		}
		o.due = min(o.due, next)
	}
	return begun, probes, o.due
}

// nextProbe is when a shard that fails is to be asked: once before it is away.
func (o *Outages) nextProbe(s *shard) timing.Instant {
	switch {
	case s.away:
		return s.probed.Add(ProbePause)
	case s.probed == 0:
		return o.from(s).Add(-o.lead)
	default:
		return timing.Never
	}
}

// Probed notes what became of a probe that was sent at an instant.
func (o *Outages) Probed(p Probe, sent timing.Instant, answered bool, err error) {
	if answered {
		o.Answered(p.Shard)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.of(p.Shard)
	s.probes--
	if !answered && s.failed != 0 {
		o.fail(s, p.Name, sent, err)
	}
}

// Gone returns a channel that is closed when the shard of a name goes away, or
// is closed if it is.
func (o *Outages) Gone(name string) <-chan struct{} {
	s := o.of(o.ShardOf(name))
	o.mu.Lock()
	defer o.mu.Unlock()
	return s.whenGone()
}

func (s *shard) whenGone() chan struct{} {
	if s.gone == nil {
		s.gone = make(chan struct{})
	}
	return s.gone
}

// Of is for how long the shard of a name, if it is away, has failed to answer:
// how long ago the first request was sent that failed with none answered since;
// 0 if it is not away. err is why the last one failed.
func (o *Outages) Of(name string) (away time.Duration, err error) {
	if !o.Troubled() {
		return 0, nil
	}
	s := o.of(o.ShardOf(name))
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.awayFor(s)
}

// Longest is Of the shard that has been away for longest.
func (o *Outages) Longest() (longest time.Duration, err error) {
	if !o.Troubled() {
		return 0, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.shards {
		if away, why := o.awayFor(&o.shards[i]); away > longest {
			longest, err = away, why
		}
	}
	return longest, err
}

func (o *Outages) awayFor(s *shard) (away time.Duration, err error) {
	now := o.clock.AtMost()
	if s.failed == 0 || !o.isAway(s, now) {
		return 0, nil
	}
	return now.Sub(s.failed), s.err
}
