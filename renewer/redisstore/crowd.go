package redisstore

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// newAcquires returns what coalesces the acquires of callers who meet.
func newAcquires(c *codec, s *wire.Sender) *wire.Coalescer[store.Claim, store.Grant] {
	return &wire.Coalescer[store.Claim, store.Grant]{
		Alike: func(a, b *store.Claim) bool {
			return c.alike(a, b) && (a.Limit == 0) == (b.Limit == 0)
		},
		Alone: func(ctx context.Context, claims []store.Claim) []store.Grant {
			job := c.newClaiming(claims)
			s.Call(ctx, job, true)
			return job.grants
		},
		Together: func(ctx context.Context, claims []store.Claim) []store.Grant {
			job := c.newClaiming(claims)
			if !s.CallTogether(ctx, job) {
				return nil
			}
			return job.grants
		},
		Unknown: c.noGrant,
		Owner:   func(c *store.Claim) string { return c.Owner },
	}
}

// newReleases returns what coalesces the releases of callers who meet.
func newReleases(c *codec, s *wire.Sender) *wire.Coalescer[store.Hold, store.Answer] {
	return &wire.Coalescer[store.Hold, store.Answer]{
		Alike: func(a, b *store.Hold) bool {
			return a.Keep == b.Keep && a.Limit == b.Limit
		},
		Alone: func(ctx context.Context, holds []store.Hold) []store.Answer {
			job := c.newReleasing(holds)
			s.Call(ctx, job, true)
			return job.answers
		},
		Together: func(ctx context.Context, holds []store.Hold) []store.Answer {
			job := c.newReleasing(holds)
			if !s.CallTogether(ctx, job) {
				return nil
			}
			return job.answers
		},
		Unknown: func(err error) store.Answer {
			return store.Answer{Err: c.errors.wrap("release", err)}
		},
	}
}
