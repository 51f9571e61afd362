package campaign

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// awaitNothingLeft returns nil once no server holds a lock any more, every key there is has a TTL,
// and no worker is connected: all who held locks have ended, so those of the dead must have lapsed.
func (s *stage) awaitNothingLeft(ctx context.Context, patience time.Duration) error {
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		err := s.left()
		if err == nil || limited.Err() != nil {
			return err
		}
		pass(limited, 50*time.Millisecond)
	}
}

func (s *stage) left() error {
	for _, server := range s.deployment.Servers {
		if err := leftOn(server); err != nil {
			return fmt.Errorf("%s: %w", server.Addr(), err)
		}
	}
	return nil
}

func leftOn(server *redistest.Server) error {
	clients, err := server.Do("CLIENT", "LIST", "TYPE", "NORMAL").ToString()
	if err != nil {
		return err
	}
	if n := strings.Count(clients, " user="+deploy.User+" "); n > 0 {
		return fmt.Errorf("%d connections of workers are still open", n)
	}
	role, err := server.Do("ROLE").ToArray()
	if err != nil {
		return err
	}
	if name, err := role[0].ToString(); err != nil || name != "master" {
		return err // a replica shows keys that have lapsed until its primary tells it
	}
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	if err != nil {
		return err
	}
	for _, key := range keys {
		ttl, err := server.Do("PTTL", key).AsInt64()
		switch {
		case err != nil:
			return err
		case ttl == -1:
			return fmt.Errorf("%s has no TTL", key)
		case ttl >= 0 && isLock(key):
			return fmt.Errorf("%s is still held, for %v", key, time.Duration(ttl)*time.Millisecond)
		}
	}
	return nil
}

// isLock tells the key of a lock that workers take from those that stay a
// while: fence counters, lines of waiters, and what quorums note of each other.
func isLock(key string) bool {
	return strings.HasSuffix(key, "}") &&
		(strings.Contains(key, "{"+keyPrefix) || strings.Contains(key, "{"+worker.IdlePrefix))
}
