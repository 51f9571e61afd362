package pgtest

import (
	"errors"
	"os"
	"testing"
)

// RequireEnv is the environment variable that, set to "1", turns a missing
// PostgreSQL from a skip into a failure.
const RequireEnv = "LOCKBEAT_REQUIRE_POSTGRES"

// Start is [Open] for a test: the server is closed when tb ends, and its log
// shown if tb has failed. Without PostgreSQL it skips tb, or fails it if
// [RequireEnv] is "1".
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	s, err := Open(settings...)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv(RequireEnv) == "1":
		tb.Fatalf("%v (%s=1 forbids skipping)", err, RequireEnv)
	case errors.Is(err, ErrMissing):
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log of PostgreSQL in %s:\n%s", s.dir, s.Log())
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
