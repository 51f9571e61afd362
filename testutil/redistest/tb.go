//go:build unix

package redistest

import (
	"errors"
	"os"
	"testing"

	"github.com/redis/rueidis"
)

// RequireEnv is the environment variable that, set to "1", turns a missing redis-server from a skip into a failure.
const RequireEnv = "LOCKBEAT_REQUIRE_REDIS"

// Start is [Open] for a test: the server is closed when tb ends, and its log shown if tb has failed. Without a redis-server
// it skips tb, or fails it if [RequireEnv] is "1".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := Open(args...)
	if errors.Is(err, ErrMissing) {
		if os.Getenv(RequireEnv) == "1" {
			tb.Fatalf("%v (%s=1 forbids skipping)", err, RequireEnv)
		}
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log of redis-server on %s:\n%s", s.Addr(), s.Log())
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Client is [Server.NewClient] for a test: the client is closed when tb ends. A frozen server is let go on for that.
func (s *Server) Client(tb testing.TB, edit ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	client, err := s.NewClient(edit...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = s.Cont() // fails only if the server is killed, and then closing doesn't wait
		client.Close()
	})
	return client
}
