package redisstore

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// newAcquires returns what coalesces the acquires of callers who meet.
func newAcquires(c *codec, s *wire.Sender) *wire.Coalescer[renewer.Claim, renewer.Grant] {
	return &wire.Coalescer[renewer.Claim, renewer.Grant]{
		Alike: c.alike,
		Alone: func(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
			job := c.newClaiming(claims)
			s.Call(ctx, job, true)
			return job.grants
		},
		Together: func(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
			job := c.newClaiming(claims)
			if !s.CallTogether(ctx, job) {
				return nil
			}
			return job.grants
		},
		Unknown: c.noGrant,
		Owner:   func(c *renewer.Claim) string { return c.Owner },
	}
}

// newReleases returns what coalesces the releases of callers who meet.
func newReleases(c *codec, s *wire.Sender) *wire.Coalescer[renewer.Hold, renewer.Answer] {
	return &wire.Coalescer[renewer.Hold, renewer.Answer]{
		Alike: func(a, b *renewer.Hold) bool { return a.Keep == b.Keep },
		Alone: func(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
			job := c.newReleasing(holds)
			s.Call(ctx, job, true)
			return job.answers
		},
		Together: func(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
			job := c.newReleasing(holds)
			if !s.CallTogether(ctx, job) {
				return nil
			}
			return job.answers
		},
		Unknown: func(err error) renewer.Answer {
			return renewer.Answer{Err: c.errors.wrap("release", err)}
		},
	}
}
