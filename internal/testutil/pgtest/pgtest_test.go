package pgtest_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder is where the server's socket is.
func folder(dsn string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(dsn, "host="), " ")
	return host
}

// listens reports whether a server takes connections in a folder.
func listens(folder string) bool {
	conn, err := net.DialTimeout("unix", filepath.Join(folder, ".s.PGSQL.5432"), time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "lock_timeout=1s")
	dir := folder(server.DSN())
	require.True(t, listens(dir))
	server.Kill()
	server.Kill()
	require.False(t, listens(dir))
	require.NoError(t, server.Restart())
	require.True(t, listens(dir))
	require.Contains(t, server.Log(), "automatic recovery", "it was a crash")
	require.NoError(t, server.Restart())
	require.True(t, listens(dir))
	require.NoError(t, server.Close())
	require.NoDirExists(t, dir)
}
