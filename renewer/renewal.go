package renewer

import (
	"context"
	"iter"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// sendDue is a step of the heartbeats' loop. It sends one batch if one is due, and never waits for
// an answer.
func (k *Keeper) sendDue() (next instant) {
	k.mu.Lock()
	b, next := k.heartbeats.Next(k.clock.Recent())
	k.mu.Unlock()
	if b != nil {
		k.goroutines.run(func() { k.renew(b) })
	}
	return next
}

// renew carries out one heartbeat.
func (k *Keeper) renew(b *beat.Batch[*Lease]) {
	ctx := k.requests.Limit()
	if k.observer != nil {
		ctx = k.observer.RenewStart(ctx, RenewStart{
			Leases: len(b.Leases), Contexts: contexts(b.Leases),
		})
	}
	answers := k.store.Renew(ctx, b.Holds)
	r, misses, news := k.bookBatch(b, answers)
	news.deliver(k)
	if k.observer == nil {
		return
	}
	for _, m := range misses {
		k.observer.Missed(m.ctx, m.event)
	}
	k.observer.Renewed(ctx, r)
}

// bookBatch books a heartbeat's answers. It returns what is to be told.
func (k *Keeper) bookBatch(
	b *beat.Batch[*Lease], answers []Answer,
) (r Renewed, misses []miss, news losses) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Recent()
	r = Renewed{Leases: len(b.Leases), Lag: b.Lag, Took: now.Sub(b.Sent)}
	for i, l := range b.Leases {
		a := asking.AnswerTo(answers, i, len(b.Leases))
		r.count(a)
		if l.state != stateHeld {
			continue
		}
		lag := b.Sent.Sub(l.due)
		k.book(l, a, b.Sent.Add(-max(0, a.Age)), now, &news)
		if k.observer != nil && l.state == stateHeld &&
			(a.Status == StatusUnknown || lag > k.cfg.RequestTimeout) {
			misses = append(misses, miss{l.seen(), Missed{
				Name: l.name, Operation: l.label.operation, Fence: l.fence, Lag: max(0, lag),
				Err:  a.Err,
				Left: max(0, instant(l.until.Load()).Sub(now)),
			}})
		}
	}
	k.outages.Book(b.Shard(), b.Sent, r.OK+r.Gone > 0 || asking.IsAnswer(StatusUnknown, r.Err))
	k.heartbeats.Complete(b, now, r.Failed > 0)
	return r, misses, news
}

// count counts an answer.
func (r *Renewed) count(a Answer) {
	switch a.Status {
	case StatusHeld:
		r.OK++
	case StatusTaken, StatusGone:
		r.Gone++
	default:
		r.Failed++
		if r.Err == nil {
			r.Err = a.Err
		}
	}
}

// miss is what an observer will hear of one lease of a heartbeat.
type miss struct {
	ctx   context.Context //nolint:containedctx // the lease's, for the observer
	event Missed
}

// book books one answer to a heartbeat sent at an instant. Under k.mu.
func (k *Keeper) book(l *Lease, a Answer, sent, now instant, news *losses) {
	k.bookRenewal(l, a, k.cfg.TTL, sent, now, news)
	switch {
	case l.state != stateHeld:
	case a.Status == StatusHeld:
		// The next heartbeat keeps the rhythm, unless this one came
		// so late that the next would follow at once.
		l.due = max(l.due.Add(k.cfg.Heartbeat), sent.Add(k.cfg.Heartbeat/2))
		k.plan(l, l.due)
	default:
		pause := k.cfg.retryPause()
		k.plan(l, now.Add(pause/2+timing.Jitter(pause/2)))
	}
}

// bookRenewal books the answer to a renewal for ttl that was sent at an instant. If it is unknown
// the deadline stays: what is left until then is for trying again. Under k.mu.
func (k *Keeper) bookRenewal(
	l *Lease, a Answer, ttl time.Duration, sent, now instant, news *losses,
) {
	switch {
	case a.Status == StatusTaken || a.Status == StatusGone:
		k.loseTaken(l, a, now, news)
	case now >= instant(l.until.Load()):
		// Confirmed or not, it comes too late: belief has ended, and must not begin again.
		k.expire(l, now, news)
	case a.Status == StatusHeld:
		l.renewed(sent, ttl)
	default:
		l.missed(a.Err)
	}
}

// plan enters a lease's next heartbeat, in place of the one planned before. It asks the store for
// the shard. Under k.mu.
func (k *Keeper) plan(l *Lease, at instant) { k.heartbeats.Plan(l, k.shards.Of(l.name), at) }

// contexts are those of leases, for an observer.
func contexts(leases []*Lease) iter.Seq[context.Context] {
	return func(yield func(context.Context) bool) {
		for _, l := range leases {
			if !yield(l.seen()) {
				return
			}
		}
	}
}
