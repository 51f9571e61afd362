package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/renewer"
)

// stuck is a store whose renewals have a connection of their own, to what was the primary when it
// was made. It is made anew, to what is the primary then, when a renewal fails on it.
type stuck struct {
	renewer.Store
	connect func() (*deploy.Connection, error)

	mu  sync.Mutex // guards what follows
	own *deploy.Connection
}

// Renew goes by the connection of its own, or, after a failure, by the client's.
func (s *stuck) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		own, err := s.connect()
		if err != nil {
			return s.Store.Renew(ctx, holds)
		}
		s.own = own
	}
	answers := s.own.Store.Renew(ctx, holds)
	if slices.ContainsFunc(answers, func(a renewer.Answer) bool {
		return a.Status == renewer.StatusUnknown
	}) {
		s.own.Close()
		s.own = nil
		return s.Store.Renew(ctx, holds)
	}
	return answers
}

func (s *stuck) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		s.own.Close()
	}
}
