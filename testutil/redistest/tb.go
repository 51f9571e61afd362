package redistest

import (
	"errors"
	"os"
	"testing"

	"github.com/redis/rueidis"
)

// RequireEnv is the environment variable that, set to "1", turns a
// missing redis-server from a skip into a failure.
const RequireEnv = "LOCKBEAT_REQUIRE_REDIS"

// Start is [Open] for a test: the server is closed when tb ends, and its log
// shown if tb has failed. Without a redis-server it skips tb, or fails it if
// [RequireEnv] is "1".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := Open(args...)
	check(tb, err)
	tidy(tb, s)
	return s
}

// StartEach starts n servers that know nothing of each other, at the
// same time; otherwise it is like Start.
func StartEach(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	recipes := make([]recipe, n)
	for i := range recipes {
		recipes[i] = plain(args)
	}
	servers, err := openAll(recipes)
	check(tb, err)
	tidy(tb, servers...)
	return servers
}

// StartCluster is [OpenCluster] for a test, as Start is Open for one.
func StartCluster(tb testing.TB, masters, replicas int, args ...string) *Cluster {
	tb.Helper()
	c, err := OpenCluster(masters, replicas, args...)
	check(tb, err)
	tidy(tb, c.Nodes()...)
	return c
}

// StartSentinel is [OpenSentinel] for a test, as Start is Open for one.
func StartSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	s, err := OpenSentinel(args...)
	check(tb, err)
	tidy(tb, s.Nodes()...)
	return s
}

// check ends a test whose servers did not start.
func check(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrMissing) {
		if os.Getenv(RequireEnv) == "1" {
			tb.Fatalf("%v (%s=1 forbids skipping)", err, RequireEnv)
		}
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// tidy closes servers when tb ends, and shows their logs if it has failed.
func tidy(tb testing.TB, servers ...*Server) {
	tb.Helper()
	tb.Cleanup(func() {
		for _, s := range servers {
			if tb.Failed() {
				tb.Logf("log of redis-server on %s:\n%s", s.Addr(), s.Log())
			}
			if err := s.Close(); err != nil {
				tb.Error(err)
			}
		}
	})
}

// Client is [Server.NewClient] for a test: the client is closed when
// tb ends. A frozen server is let go on for that.
func (s *Server) Client(tb testing.TB, edit ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	client, err := s.NewClient(edit...)
	return closing(tb, client, err, s)
}

// Client connects a client that knows the cluster, with ClientOption changed
// by edit, and closes it when tb ends. Frozen nodes are let go on for that.
func (c *Cluster) Client(tb testing.TB, edit ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	client, err := connect(c.ClientOption(), edit)
	return closing(tb, client, err, c.Nodes()...)
}

// Client connects a client that asks the Sentinels for the primary, with
// ClientOption changed by edit, and closes it when tb ends. Frozen servers are
// let go on for that.
func (s *Sentinel) Client(tb testing.TB, edit ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	client, err := connect(s.ClientOption(), edit)
	return closing(tb, client, err, s.Nodes()...)
}

func closing(tb testing.TB, client rueidis.Client, err error, servers ...*Server) rueidis.Client {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, s := range servers {
			_ = s.Cont() // fails only if the server is killed, and then closing doesn't wait
		}
		client.Close()
	})
	return client
}
