package campaign

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// awaitNothingLeft returns nil once no server holds a lock, a slot or a line of waiters any more,
// every key there is has a TTL, names have left no counters, and no worker is connected: all who
// held locks have ended, so those of the dead must have lapsed.
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
		if err := leftOn(server, s.deployment); err != nil {
			return fmt.Errorf("%s: %w", server.Addr(), err)
		}
	}
	return nil
}

func leftOn(server *redistest.Server, d *deploy.Deployment) error {
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
		named := strings.Contains(key, "{"+keyPrefix)
		switch slot := redistest.Slot(key); {
		case ttl == -1:
			return fmt.Errorf("%s has no TTL", key)
		case (strings.HasSuffix(key, ":newest") || strings.HasSuffix(key, ":begun")) &&
			left <= time.Minute:
			// Which call was the newest lapses in a minute, where nobody has taken it back.
		case d.Sentinel != nil && strings.HasSuffix(key, ":waiters") && left <= time.Minute:
			// A replica that was promoted may never have heard that a place was given up.
		case named && !strings.HasSuffix(key, ":fence"):
			return fmt.Errorf("%s is still there, for %v: %s", key, left, contents(server, key))
		case named && !d.Quorum:
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

// contents are what a key holds, of whatever type it is.
func contents(server *redistest.Server, key string) string {
	for _, command := range [][]string{
		{"GET", key}, {"ZRANGE", key, "0", "-1", "WITHSCORES"}, {"HGETALL", key},
	} {
		if v, err := server.Do(command...).ToAny(); err == nil {
			return fmt.Sprintf("%q", v)
		}
	}
	return "nothing"
}

// standing describes all that servers have of a name.
func (s *stage) standing(name string) string {
	var b strings.Builder
	for _, server := range s.deployment.Servers {
		keys, _ := server.Do("KEYS", keyOf(name)+"*").AsStrSlice() // none if it can't be asked
		for _, key := range keys {
			left, _ := server.Do("PTTL", key).AsInt64()
			fmt.Fprintf(&b, "%s has %s for %d ms: %s; ", server.Addr(), key, left,
				contents(server, key))
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}
