package asking

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

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
	clock   *timing.Clock
	after   time.Duration
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

// NewOutages returns what knows of no failure yet. A shard is away after that
// time.
func NewOutages(clock *timing.Clock, after time.Duration) *Outages {
	return &Outages{clock: clock, after: after, lead: min(after/2, ProbePause), due: timing.Never}
}

func (o *Outages) of(number int) *shard { return &o.shards[uint(number)%outageShards] }

// Same reports whether two shards are one here.
func (o *Outages) Same(a, b int) bool { return o.of(a) == o.of(b) }

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
// shard at an instant, and why. It returns when [Outages.Due] is to be called.
func (o *Outages) Failed(
	number int, name string, sent timing.Instant, err error,
) (due timing.Instant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(o.of(number), name, sent, err)
	return o.due
}

func (o *Outages) fail(s *shard, name string, sent timing.Instant, err error) {
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
	from := max(s.failed.Add(o.after), s.known.Add(min(o.after, secondTry)))
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

// Gone returns a channel that is closed when a shard goes away, or is closed if
// it is.
func (o *Outages) Gone(number int) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(number).whenGone()
}

func (s *shard) whenGone() chan struct{} {
	if s.gone == nil {
		s.gone = make(chan struct{})
	}
	return s.gone
}

// Of is for how long a shard that is away has failed to answer: how long ago
// the first request was sent that failed with none answered since; 0 if it is
// not away. err is why the last one failed.
func (o *Outages) Of(number int) (away time.Duration, err error) {
	if !o.Troubled() {
		return 0, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.awayFor(o.of(number))
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
