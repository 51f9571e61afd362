package campaign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// awaitNothingLeft returns nil once no server holds a lock or a line of waiters any more, every key
// there is has a TTL, names have left no counters, and no worker is connected: all who held locks
// have ended, so those of the dead must have lapsed.
func (s *stage) awaitNothingLeft(ctx context.Context, patience time.Duration) error {
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		err := s.left()
		if err == nil || limited.Err() != nil {
			return err
		}
		wait(limited, 50*time.Millisecond)
	}
}

func (s *stage) left() error {
	for _, server := range s.deployment.Servers {
		if err := leftOn(server, s.deployment.Quorum); err != nil {
			return fmt.Errorf("%s: %w", server.Addr(), err)
		}
	}
	return nil
}

func leftOn(server *redistest.Server, quorum bool) error {
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
	marks := make(map[int]string) // by slot
	for _, key := range keys {
		ttl, err := server.Do("PTTL", key).AsInt64()
		if err != nil {
			return err
		}
		if ttl == -2 {
			continue // it has lapsed since
		}
		left := time.Duration(ttl) * time.Millisecond
		switch slot := redistest.Slot(key); {
		case ttl == -1:
			return fmt.Errorf("%s has no TTL", key)
		case isLock(key):
			return fmt.Errorf("%s is still held, for %v", key, left)
		case isLock(strings.TrimSuffix(key, ":waiters")):
			places, err := server.Do("ZRANGE", key, "0", "-1", "WITHSCORES").AsStrSlice()
			return errors.Join(fmt.Errorf("%s is still there, for %v: %q", key, left, places), err)
		case !quorum && strings.HasSuffix(key, ":fence"):
			return fmt.Errorf("%s is a counter of one name, which only quorums need", key)
		case !strings.HasSuffix(key, ":mark"):
		case marks[slot] != "":
			return fmt.Errorf("%s and %s are marks of the same slot", marks[slot], key)
		default:
			marks[slot] = key
		}
	}
	return nil
}

// isLock reports whether a key is a lock that workers take.
func isLock(key string) bool {
	return strings.HasSuffix(key, "}") && strings.Contains(key, "{"+keyPrefix)
}

// standing describes a lock and its line of waiters, as the servers have them.
func (s *stage) standing(name string) string {
	key := keyOf(name)
	var b strings.Builder
	for _, server := range s.deployment.Servers {
		value, err := server.Do("GET", key).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			continue // another server's
		}
		left, _ := server.Do("PTTL", key).AsInt64()
		line, _ := server.Do("ZRANGE", key+":waiters", "0", "-1", "WITHSCORES").AsStrSlice()
		fmt.Fprintf(&b, "%s has %q for %d ms, and the line %q; ", server.Addr(), value, left, line)
	}
	return strings.TrimSuffix(b.String(), "; ")
}
