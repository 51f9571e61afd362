package fault

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// tries is how often a command is given whose connection breaks: a
// Sentinel that makes a server a replica cuts all of them.
const tries = 5

// do gives a server a command that must succeed, and may be repeated.
func do(s *redistest.Server, args ...string) error {
	var err error
	for range tries {
		if err = s.Do(args...).Error(); err == nil || isReply(err) {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("fault: %s on %s: %w", strings.Join(args, " "), s.Addr(), err)
	}
	return nil
}

// isReply tells an error that the server has answered with.
func isReply(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// writable is do for a command that a replica refuses, which is no failure.
func writable(s *redistest.Server, args ...string) error {
	err := do(s, args...)
	if err != nil && strings.Contains(err.Error(), "READONLY") {
		return nil
	}
	return err
}
