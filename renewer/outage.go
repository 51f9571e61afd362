package renewer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Outage returns how long the store, or the shard that has the name, has
// answered nothing; 0 below [Config.FailOver]. "" stands for the shard that is
// away for longest.
func (k *Keeper) Outage(name string) time.Duration {
	if !k.outages.Troubled() {
		return 0
	} else if name == "" {
		away, _ := k.outages.Longest()
		return away
	}
	away, _ := k.outages.Of(k.shards.Of(name))
	return away
}

// HealthCheck is for a readiness probe, and asks no server: [ErrUnavailable]
// while callers are refused since the store, or a shard of it, is away;
// [ErrShutdown] once Shutdown has begun. It is no liveness probe: a new process
// helps nothing in an outage.
func (k *Keeper) HealthCheck() error {
	k.mu.Lock()
	phase := k.shutdown.phase
	k.mu.Unlock()
	if phase != phaseRun {
		return ErrShutdown
	}
	if away, err := k.outages.Longest(); err != nil {
		return fmt.Errorf("%w: it, or a shard of it: %w", ErrUnavailable,
			storeError{&awayError{time.Now(), away, err}})
	}
	return nil
}

// awayError is why a store that is away is not asked. Its text is made when it
// is read, as many callers may be refused with it.
type awayError struct {
	now  time.Time
	away time.Duration
	last error // of those who have asked
}

func (e *awayError) Error() string { return e.text(e.last.Error()) }

// Nameless is its text without the names of locks: see ErrorText.
func (e *awayError) Nameless() string { return e.text(ErrorText(e.last)) }

func (e *awayError) text(last string) string {
	return fmt.Sprintf("no answer since %s, for %v: %s",
		e.now.Add(-e.away).UTC().Format("15:04:05 UTC"), e.away.Round(time.Millisecond), last)
}

func (e *awayError) Unwrap() error { return e.last }

// bookFailure notes that a request for a name, sent to a shard at an instant,
// was not answered.
func (k *Keeper) bookFailure(shard int, name string, sent instant, err error) {
	k.ends.WakeBy(k.outages.Failed(shard, name, sent, k.failure(err)))
}

// failure is why a request was not answered: that its time was over is our
// doing.
func (k *Keeper) failure(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return k.tooLate
	}
	return err
}

// tendOutages has callers refused when a shard has just gone away, also those
// for whom it is being asked, and asks those that are. It returns when it is to
// be called next. Under k.mu.
func (k *Keeper) tendOutages(now instant) (next instant) {
	begun, probes, next := k.outages.Due(now)
	if begun {
		for _, l := range k.desk.AskAtFronts() {
			asks := l.belief.Asking() && l.belief.Slot != timing.Nowhere
			if asks && k.Outage(l.name) > 0 {
				l.belief.AskUntil(now)
				k.attendBy(l, now)
			}
		}
	}
	for _, p := range probes {
		k.goroutines.run(func() { k.probe(p) })
	}
	return next
}

// probeNames is how many names are tried to find one of a shard.
const probeNames = 10000

// probe asks a shard that is away by a claim, since a server that can be read
// may not be written: one that is a replica, or lacks one. It is for a name of
// this process's own, so that no caller is refused for it, and lapses at once:
// many may be carried out when the store is back, and who lists locks is to see
// none.
func (k *Keeper) probe(p asking.Probe) {
	sent := k.clock.AtMost()
	owner := lease.NewOwner()
	claim := store.Claim{Owner: owner.String(), TTL: time.Millisecond, Holder: k.self}
	claim.Holder.Operation = "is the store back?"
	for i := 0; i == 0 || !k.outages.Same(k.shards.Of(claim.Name), p.Shard); i++ {
		if i == probeNames { // the store has no such shard any more
			k.outages.Probed(p, sent, true, nil)
			return
		}
		claim.Name = fmt.Sprintf("%.64s is the store back? %.64s %d", p.Name, k.self, i)
	}
	g := asking.GrantOf(k.store.Acquire(k.cleanUpRequest(), []store.Claim{claim}), 0, 1)
	k.outages.Probed(p, sent, asking.IsAnswer(g.Status, g.Err), k.failure(g.Err))
}

// isAway reports whether the store is away, and the call is not to wait for it.
func (c *call) isAway() bool {
	_, err := c.k.outages.Of(c.k.shards.Of(c.l.name))
	return err != nil && !c.request.outlastsOutages()
}

// checkOutage returns the error of a call that is not to wait for a store that
// is away.
func (c *call) checkOutage() error {
	k := c.k
	if c.request.outlastsOutages() {
		return nil
	}
	if away, err := k.outages.Of(k.shards.Of(c.l.name)); err != nil {
		c.seen = unavailable(&awayError{time.Now(), away, err})
		return c.refuse()
	}
	return nil
}

// storeGone is closed when the call is to wait no more, since the store is
// away.
func (c *call) storeGone() <-chan struct{} {
	if c.request.outlastsOutages() {
		return nil
	}
	return c.k.outages.Gone(c.k.shards.Of(c.l.name))
}

// refuseAway is the error of a call that has waited when the store went away.
// It may have come back in the same moment.
func (c *call) refuseAway() error {
	if err := c.checkOutage(); err != nil {
		return err
	}
	c.seen = unavailable(errNoAnswer)
	return c.refuse()
}
