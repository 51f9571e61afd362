package worker

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// flawed is a store that is broken on purpose.
type flawed struct {
	store.Store
	flaw Flaw
}

func breakStore(s store.Store, flaw Flaw) store.Store {
	switch flaw {
	case DeafRenewal, ShortRenewal, StaleToken:
		return &flawed{s, flaw}
	default:
		return s
	}
}

// Acquire may give every grant the same token.
func (s *flawed) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := s.Store.Acquire(ctx, claims)
	if s.flaw == StaleToken {
		for i := range grants {
			grants[i].Fence, grants[i].Reserved = 1, 0
		}
	}
	return grants
}

// Renew may take any answer for a confirmation, or set too short a TTL.
func (s *flawed) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	if s.flaw == ShortRenewal {
		short := make([]store.Hold, len(holds))
		for i, h := range holds {
			short[i] = h
			short[i].TTL = h.TTL / 4
		}
		// By way of a release that keeps the name for that long: a renewal never shortens.
		for i := range short {
			short[i].Keep = short[i].TTL
		}
		return s.Release(ctx, short)
	}
	answers := s.Store.Renew(ctx, holds)
	if s.flaw == DeafRenewal {
		for i := range answers {
			answers[i] = store.Answer{Status: store.StatusHeld}
		}
	}
	return answers
}
