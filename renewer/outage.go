package renewer

import (
	"cmp"
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
	away, _ := k.outages.Of(name)
	return away
}

// HealthCheck is for a readiness probe, and asks no server: [ErrUnavailable]
// while callers are refused since the store, or a shard of it, is away;
// [ErrShutdown] once Shutdown has begun. It is no liveness probe: a new process
// helps nothing in an outage.
func (k *Keeper) HealthCheck() error {
	b := k.lock()
	phase := b.phase
	b.Unlock()
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

// tendOutages has callers refused when a shard has just gone away, also those
// for whom it is being asked, and asks those that are. It returns when it is to
// be called next.
func (b *books) tendOutages(now instant) (next instant) {
	k := b.k
	begun, probes, next := k.outages.Due(now)
	if begun {
		for _, l := range k.desk.AskAtFronts() {
			asks := l.belief.Asking() && l.belief.Slot != timing.Nowhere
			if asks && k.Outage(l.name) > 0 {
				l.belief.AskUntil(now)
				b.attendBy(l, now)
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
	for i := 0; i == 0 || !k.outages.IsOn(claim.Name, p); i++ {
		if i == probeNames { // the store has no such shard any more
			k.outages.Probed(p, sent, true, nil)
			return
		}
		claim.Name = fmt.Sprintf("%.64s is the store back? %.64s %d", p.Name, k.self, i)
	}
	g := asking.GrantOf(k.store.Acquire(k.cleanUpRequest(), []store.Claim{claim}), 0, 1)
	k.outages.Probed(p, sent, asking.IsAnswer(g.Status, g.Err), g.Err)
}

// away is why the call is not to wait for the store, nil unless that is away.
func (c *call) away() error {
	if c.request.outlastsOutages() {
		return nil
	}
	if away, err := c.k.outages.Of(c.l.name); err != nil {
		return &awayError{time.Now(), away, err}
	}
	return nil
}

// storeGone is closed when the call is to wait no more, since the store is
// away.
func (c *call) storeGone() <-chan struct{} {
	if c.request.outlastsOutages() {
		return nil
	}
	return c.k.outages.Gone(c.l.name)
}

// refuseAway is the error of a call that has waited when the store went away.
// It may have come back in the same moment.
func (c *call) refuseAway() error {
	c.seen = unavailable(cmp.Or(c.away(), errNoAnswer))
	return c.refuse()
}
