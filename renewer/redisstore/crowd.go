package redisstore

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer"
)

// newAcquires returns what coalesces the acquires of callers who meet. A
// caller that leaves is noted in left until the server has had its claim.
func newAcquires(
	c *codec, s *sender, left *abandoned,
) *coalescer[renewer.Claim, renewer.Grant] {
	return &coalescer[renewer.Claim, renewer.Grant]{
		alike: c.alike,
		alone: func(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
			job := c.newClaiming(claims)
			s.call(ctx, job, true)
			return job.grants
		},
		together: func(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
			job := c.newClaiming(claims)
			if !s.callTogether(ctx, job) {
				return nil
			}
			return job.grants
		},
		unknown: c.noGrant,
		left:    func(c *renewer.Claim, over <-chan struct{}) { left.add(c.Owner, over) },
		settled: func(c *renewer.Claim, over <-chan struct{}) { left.remove(c.Owner, over) },
	}
}

// newReleases returns what coalesces the releases of callers who meet.
func newReleases(c *codec, s *sender) *coalescer[renewer.Hold, renewer.Answer] {
	return &coalescer[renewer.Hold, renewer.Answer]{
		alike: func(a, b *renewer.Hold) bool { return a.Keep == b.Keep },
		alone: func(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
			job := c.newReleasing(holds)
			s.call(ctx, job, true)
			return job.answers
		},
		together: func(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
			job := c.newReleasing(holds)
			if !s.callTogether(ctx, job) {
				return nil
			}
			return job.answers
		},
		unknown: func(err error) renewer.Answer {
			return renewer.Answer{Err: c.errors.wrap("release", err)}
		},
	}
}
