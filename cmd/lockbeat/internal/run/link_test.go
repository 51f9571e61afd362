//go:build linux

package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// stamping writes the time of day into a file until it is killed.
const stamping = `trap "echo asked >>$FILE.asked" TERM
	echo up; while :; do date +%s%N >>$FILE; sleep 0.01; done`

// lastStamp is the last whole line.
func lastStamp(t *testing.T, path string) time.Time {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Greater(t, len(lines), 1)
	ns, err := strconv.ParseInt(lines[len(lines)-2], 10, 64)
	require.NoError(t, err)
	return time.Unix(0, ns)
}

// When Redis can't be reached the command is asked to end, and is dead before
// the key expires; a Redis that is back in time changes nothing.
func TestLinkIsCut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link := proxy.Start(t, server.Addr())
	file := filepath.Join(t.TempDir(), "stamps")
	p := start(t, link.Addr(), "--name=k", "--ttl=3s", "--", "env", "FILE="+file, "sh", "-c",
		stamping)
	p.expect("up")
	link.Blackhole(proxy.Both)
	<-time.After(time.Second)
	link.Heal()
	begun, _ := left(t, server, key("k"))
	require.Eventually(t, func() bool { // a renewal
		now, held := left(t, server, key("k"))
		renewed := now > begun
		begun = now
		return held && renewed
	}, patience, 5*time.Millisecond)

	link.Blackhole(proxy.Both)
	// A renewal that had passed may still be on its way to the server: wait
	// until none is.
	var end time.Time
	for range 20 {
		now := time.Now()
		d, held := left(t, server, key("k"))
		require.True(t, held)
		end = now.Add(d)
		<-time.After(5 * time.Millisecond)
	}
	awaitFree(t, server, "k")
	assert.Empty(t, p.command())
	last := lastStamp(t, file)
	assert.True(t, last.Before(end), "it ran until %v, the lock until %v", last, end)
	assert.FileExists(t, file+".asked")
	assert.Equal(t, 76, p.status())
	assert.Contains(t, p.stderr.String(), "lost")
}

// A guard that hangs, of which the system says nothing, is not trusted for
// longer than to the deadline: then the wrapper ends the command itself.
func TestGuardHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link := proxy.Start(t, server.Addr())
	p := start(t, link.Addr(), "--name=k", "--ttl=3s", "--", "sh", "-c", family)
	p.expect("up")
	guard := p.guard()
	defer func() { _ = guard.Release() }()
	// Its first thread, which does all the work, is held as a debugger does it.
	// That is bound to this thread, which ends with the goroutine.
	runtime.LockOSThread()
	require.NoError(t, unix.PtraceSeize(guard.Pid))
	require.NoError(t, unix.PtraceInterrupt(guard.Pid))
	link.Blackhole(proxy.Both)
	awaitFree(t, server, "k")
	assert.Empty(t, p.command())
	var status unix.WaitStatus
	_, err := unix.Wait4(guard.Pid, &status, unix.WALL, nil) // what a debugger has to do
	assert.NoError(t, err)
	assert.Equal(t, 76, p.status())
}

// A lock that has been deleted may be another's already: there is no grace.
func TestKeyIsDeleted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, server.Addr(), "--name=k", "--ttl=3s", "--grace=700ms", "--", "sh", "-c",
		`trap "echo asked" TERM; echo up; while :; do sleep 0.01; done`)
	p.expect("up")
	require.NoError(t, server.Do("DEL", key("k")).Error())
	assert.Equal(t, 76, p.status())
	assert.Empty(t, p.alive())
	for line := range p.lines {
		assert.Fail(t, "it was asked", line)
	}
}

// The command's end is not the lock's: what it has left is asked to end, and
// then killed.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, server.Addr(), "--name=k", "--ttl=3s", "--grace=300ms", "--", "sh", "-c",
		`(setsid sh -c 'trap "echo asked" TERM; echo up; while :; do sleep 0.01; done' &)
		read x; exit 9`)
	p.expect("up")
	_, err := fmt.Fprintln(p.stdin, "go")
	require.NoError(t, err)
	p.expect("asked")
	_, held := left(t, server, key("k"))
	assert.True(t, held || len(p.command()) == 0)
	assert.Equal(t, 9, p.status())
	assert.Empty(t, p.alive())
	awaitFree(t, server, "k")
}

// A Redis that is away when the lock is to be freed keeps nobody for long.
func TestRedisGoesAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, server.Addr(), "--name=k", "--ttl=2s", "--", "sh", "-c", "echo up; read x; exit 5")
	p.expect("up")
	server.Kill()
	_, err := fmt.Fprintln(p.stdin, "go")
	require.NoError(t, err)
	assert.Equal(t, 5, p.status(), "a finished result stands")
	assert.Contains(t, p.stderr.String(), "warning")
}
