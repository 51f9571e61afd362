package redistest_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// orphanEnv makes TestDies a process that starts a server and waits to be
// killed.
const orphanEnv = "REDISTEST_ORPHAN"

// TestDies is run by TestNoServerOutlivesItsProcess. By itself it has nothing
// to do.
func TestDies(t *testing.T) {
	t.Parallel()
	if os.Getenv(orphanEnv) == "" {
		return
	}
	server, err := redistest.Open()
	require.NoError(t, err)
	info, err := server.Do("INFO", "server").ToString()
	require.NoError(t, err)
	require.NoError(t, server.Stop(), "a frozen server must go too")
	_, err = os.Stdout.WriteString(info + "ready\r\n")
	require.NoError(t, err)
	<-t.Context().Done() // killed before
}

func TestNoServerOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	redistest.Start(t) // skips where there is no server to start
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDies$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	var pid int
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "ready") {
		if text, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			pid, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, pid, "the process says which server it has started")
	require.NoError(t, unix.Kill(pid, 0), "the server is there")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		now := state(pid)
		return now == "" || now == "Z" // who reaps it is not our affair
	}, 10*time.Second, 5*time.Millisecond)
}

// state returns a process's state as /proc shows it, or "" if there is no such
// process.
func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}
