//go:build unix

package pgtest_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/pgtest"
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

func TestBadSetting(t *testing.T) {
	t.Parallel()
	pgtest.Start(t) // skips where there is no PostgreSQL
	_, err := pgtest.Open("no_such_setting=1")
	require.ErrorContains(t, err, "no_such_setting")
}

// orphanEnv makes TestDies a process that starts a server and waits to be killed.
const orphanEnv = "LOCKBEAT_PGTEST_ORPHAN"

// TestDies is run by TestNoServerOutlivesItsProcess. By itself it has nothing to do.
func TestDies(t *testing.T) {
	t.Parallel()
	if os.Getenv(orphanEnv) == "" {
		return
	}
	server, err := pgtest.Open()
	require.NoError(t, err)
	_, err = os.Stdout.WriteString("folder " + folder(server.DSN()) + "\n")
	require.NoError(t, err)
	<-t.Context().Done() // killed before
}

func TestNoServerOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	pgtest.Start(t) // skips where there is no PostgreSQL
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDies$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	dir := ""
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		dir, _ = strings.CutPrefix(lines.Text(), "folder ")
	}
	require.True(t, listens(dir))
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return !listens(dir) }, 10*time.Second,
		10*time.Millisecond)
	require.NoError(t, os.RemoveAll(dir))
}
