package worker

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// telling is a store that tells of each grant and renewal before the engine hears of it: no process
// can believe in a deadline that the parent does not know. Deadlines are counted from when the
// request reached it, which is a little later than the instant from which the engine counts.
type telling struct {
	store.Store
	t   *teller
	cfg renewer.Config
}

// tellOf wraps a store.
func tellOf(s store.Store, t *teller, cfg renewer.Config) store.Store {
	told := &telling{s, t, cfg}
	if inner, ok := s.(breakable); ok {
		return &tellingAll{told, inner}
	}
	return told
}

// breakable is a store whose leases can be broken and replaced: any that is sound, but a quorum.
type breakable interface {
	contract.Sharded
	store.Inspector
	contract.Replacer
}

// tellingAll is a telling store with all else that the engine asks of such a store.
type tellingAll struct {
	*telling
	inner breakable
}

// Shard is the inner store's.
func (s *tellingAll) Shard(name string) int { return s.inner.Shard(name) }

// Break is the inner store's.
func (s *tellingAll) Break(ctx context.Context, b store.Breaking) store.Answer {
	return s.inner.Break(ctx, b)
}

// OnBreak is the inner store's.
func (s *tellingAll) OnBreak(
	holder store.Holder, look func(name string, limit bool),
) (stop func()) {
	return s.inner.OnBreak(holder, look)
}

// Replace tells of each call that breaks the leases of others.
func (s *tellingAll) Replace(ctx context.Context, r contract.Replacement) (since int64, err error) {
	sent := history.Now()
	since, err = s.inner.Replace(ctx, r)
	if since != 0 && r.Break {
		s.t.tell(history.Event{
			Kind: history.Replaced, At: history.Now(), Sent: sent, Name: r.Name,
		})
	}
	return since, err
}

// validFor is how long a lease is good for: until its deadline, less
// the margin at which its context is cancelled.
func (s *telling) validFor(ttl time.Duration) time.Duration {
	return time.Duration(
		float64(ttl)*(1-s.cfg.ClockDrift)/(1+s.cfg.ClockDrift),
	) - time.Millisecond - s.cfg.Margin
}

// Acquire tells of what is granted.
func (s *telling) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	sent := history.Now()
	grants := s.Store.Acquire(ctx, claims)
	for i, g := range grants {
		if g.Status == store.StatusHeld {
			s.t.tell(history.Event{
				Kind: history.Granted, At: sent, Name: claims[i].Name, Owner: claims[i].Owner,
				Fence: g.Fence,
				Top:   g.Fence + int64(g.Reserved),
				Until: sent + int64(s.validFor(claims[i].TTL)),
			})
		}
	}
	return grants
}

// Renew tells of what is confirmed, and of what is refused.
func (s *telling) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	sent := history.Now()
	answers := s.Store.Renew(ctx, holds)
	for i, a := range answers {
		switch a.Status {
		case store.StatusHeld:
			s.t.tell(history.Event{
				Kind: history.Extended, At: history.Now(), Owner: holds[i].Owner,
				Sent:  sent - int64(max(0, a.Age)),
				Until: sent + int64(s.validFor(holds[i].TTL)-max(0, a.Age)),
			})
		case store.StatusBroken, store.StatusTaken, store.StatusGone:
			s.t.tell(history.Event{
				Kind: history.Refused, At: history.Now(), Owner: holds[i].Owner,
			})
		default: // it is not known
		}
	}
	return answers
}
