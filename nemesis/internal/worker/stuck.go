package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/renewer"
)

// stuck is a store whose renewals have a connection of their own, to what was the primary when it
// was made. It is made anew, to what is the primary then, when they have failed on it for a TTL.
type stuck struct {
	renewer.Store
	connect func() (*deploy.Connection, error)
	ttl     time.Duration

	mu   sync.Mutex // guards what follows
	own  *deploy.Connection
	good time.Time // when it was made, or a renewal last succeeded on it
}

// Renew goes by the connection of its own, or by the client's while there is none.
func (s *stuck) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		own, err := s.connect()
		if err != nil {
			return s.Store.Renew(ctx, holds)
		}
		s.own, s.good = own, time.Now()
	}
	answers := s.own.Store.Renew(ctx, holds)
	switch failed := slices.ContainsFunc(answers, func(a renewer.Answer) bool {
		return a.Status == renewer.StatusUnknown
	}); {
	case !failed:
		s.good = time.Now()
	case time.Since(s.good) > s.ttl:
		s.own.Close()
		s.own = nil
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
