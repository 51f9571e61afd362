//go:build linux

package run_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	const lock = "--name=k"
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{lock, "--", "true"}, 0, ""},
		{[]string{lock, "sh", "-c", "exit 41"}, 41, ""},
		{[]string{lock, "--", "sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{lock, "--", "sh", "-c", "kill -USR1 $$"}, 138, ""},
		{[]string{lock, "--", "no-such-command"}, 127, "no-such-command"},
		{[]string{lock, "--", folder + "/none"}, 127, "none"},
		{[]string{lock, "--", write("plain", "x", 0o600)}, 126, "permission"},
		{[]string{lock, "--", write("garbage", "\x01", 0o700)}, 126, "exec format"},
		{[]string{lock, "--", write("lost", "#!/does/not/exist\n", 0o700)}, 127, "no such file"},
		{[]string{lock}, 64, "command"},
		{[]string{"--", "true"}, 64, "--name"},
		{[]string{lock, "--nonsense", "--", "true"}, 64, "--nonsense"},
		{[]string{lock, "--skip", "--wait=1s", "--", "true"}, 64, "--skip"},
		{[]string{lock, "--wait=-1s", "--", "true"}, 64, "--wait"},
		{[]string{lock, "--at-most=0", "--", "true"}, 64, "--at-most"},
		{[]string{lock, "--at-least=0", "--", "true"}, 64, "--at-least"},
		{[]string{lock, "--metrics=report.txt", "--", "true"}, 64, "--metrics"},
		{[]string{lock, "--ttl=10ms", "--", "true"}, 64, "--ttl"},
		{[]string{lock, "--ttl=9s", "--grace=4s", "--", "true"}, 64, "--grace"},
		{[]string{"--name=" + strings.Repeat("x", 600), "--", "true"}, 64, "name"},
		{[]string{lock, "--config=/does/not/exist", "--", "true"}, 78, "--config"},
	} {
		_, stderr, status := outcome(t, server.Addr(), c.args...)
		assert.Equal(t, c.status, status, "%v: %s", c.args, stderr)
		assert.Contains(t, stderr, c.says)
		if c.says == "" {
			assert.Empty(t, stderr)
		}
	}
	for _, args := range [][]string{{"--wait=300ms"}, {"--skip"}, {"--wait=0"}} {
		_, _, status := outcome(t, "127.0.0.1:1", append(args, lock, "--", "true")...)
		assert.Equal(t, 69, status)
	}
	awaitFree(t, server, "k")
}

// What another has is waited for, or not.
func TestHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first := start(t, server.Addr(), "--name=k", "--", "sh", "-c", "echo ready; read x; exit 3")
	first.expect("ready")

	out, stderr, status := outcome(t, server.Addr(), "--name=k", "--skip", "--", "echo", "ran")
	assert.Zero(t, status)
	assert.Empty(t, out+stderr, "nothing is to be said")
	for _, wait := range []string{"--wait=0", "--wait=50ms"} {
		_, stderr, status = outcome(t, server.Addr(), "--name=k", wait, "--", "true")
		assert.Equal(t, 75, status)
		assert.Contains(t, stderr, "(sh)", "what has it")
	}
	second := start(t, server.Addr(), "--name=k", "--", "echo", "mine")
	awaitLine(t, server, "k")
	require.NoError(t, first.stdin.Close())
	assert.Equal(t, 3, first.status())
	second.expect("mine")
	assert.Zero(t, second.status())
}

// A short wait that ends before the second answer comes is not told as an
// outage: the first one has said who has it.
func TestAShortWaitIsNoOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first := start(t, server.Addr(), "--name=k", "--", "sh", "-c", "echo ready; read x")
	first.expect("ready")
	var waits sync.WaitGroup
	var dropped atomic.Int64
	for _, wait := range []string{"--wait=150ms", "--wait=1ms"} { // the second is over by then
		waits.Go(func() {
			link := proxy.Start(t, server.Addr())
			var claims atomic.Int32
			link.DropReplyTo(func(request []byte) bool {
				script := bytes.Contains(request, []byte("EVAL")) // what is native does not say who has it
				return script && bytes.Contains(request, []byte("lockbeat:{k}")) && claims.Add(1) > 1
			}, 1000, proxy.ThenReset)
			_, stderr, status := outcome(t, link.Addr(), "--name=k", "--ttl=4s", wait, "--", "true")
			assert.Equal(t, 75, status, wait)
			assert.Contains(t, stderr, "(sh)", wait)
			dropped.Add(int64(link.Dropped()))
		})
	}
	waits.Wait()
	assert.Positive(t, dropped.Load())
	require.NoError(t, first.stdin.Close())
	assert.NotEqual(t, 75, first.status())
}

// A limit lets so many in, and its fencing tokens rise too.
func TestLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var slots []*program
	for range 2 {
		p := start(t, server.Addr(), "--name=k", "--at-most=2", "--", "sh", "-c",
			"echo ready; read x")
		p.expect("ready")
		slots = append(slots, p)
	}
	_, _, status := outcome(t, server.Addr(), "--name=k", "--at-most=2", "--wait=0", "--", "true")
	assert.Equal(t, 75, status)
	for _, p := range slots {
		_, err := p.stdin.Write([]byte("go\n"))
		require.NoError(t, err)
		assert.Zero(t, p.status())
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var last int64
	for range 3 {
		out, _, status := outcome(t, server.Addr(), "--name=a b\xff", "--", "sh", "-c",
			`printf '%s %s' "$LOCKBEAT_FENCE" "$LOCKBEAT_NAME"`)
		require.Zero(t, status)
		token, name, _ := strings.Cut(out, " ")
		assert.Equal(t, "a b\xff", name)
		fence, err := strconv.ParseInt(token, 10, 64)
		require.NoError(t, err)
		assert.Greater(t, fence, last)
		last = fence
	}
}

// The command does not know the password, and a process that connects by what it knows
// is told so.
func TestPasswordIsNotPassedOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret")
	const inner = `"$0" run --name=inner -- true; echo "$? $LOCKBEAT_URL"`
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(args ...string) (stdout, stderr string) {
		args = append([]string{"--name=k"}, append(args, "--", "sh", "-c", inner, self)...)
		stdout, stderr, status := outcome(t, ":secret@"+server.Addr(), args...)
		assert.Zero(t, status)
		return stdout, stderr
	}
	stdout, stderr := run()
	assert.Equal(t, "78 redis://"+server.Addr()+"\n", stdout)
	assert.Contains(t, stderr, "a password is missing in")
	stdout, _ = run("--keep-password")
	assert.Equal(t, "0 redis://:secret@"+server.Addr()+"\n", stdout)
}

// What goes in and out is the command's own affair, and so are other files that
// it inherits: it is as if it ran by itself.
func TestFilesAreUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const script = `cat; cat <&3; printf "\377err" >&2; ls -l /proc/self/fd | wc -l`
	third := filepath.Join(t.TempDir(), "third")
	require.NoError(t, os.WriteFile(third, []byte("third"), 0o600))
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	output := func(cmd *exec.Cmd, run func()) []byte {
		in, err := os.Open(third)
		require.NoError(t, err)
		defer func() { _ = in.Close() }()
		var out bytes.Buffer
		cmd.ExtraFiles, cmd.Stdin, cmd.Stdout = []*os.File{in}, bytes.NewReader(data), &out
		run()
		return out.Bytes()
	}

	alone := exec.CommandContext(t.Context(), "sh", "-c", script)
	want := output(alone, func() { require.NoError(t, alone.Run()) })
	p := prepare(t, server.Addr(), "--name=k", "--", "sh", "-c", script)
	got := output(p.cmd, func() { p.begin(); require.Zero(t, p.status()) })
	assert.True(t, bytes.HasPrefix(want, slices.Concat(data, []byte("third"))))
	assert.True(t, bytes.Equal(want, got), "%q", got[min(len(data), len(got)):])
	assert.Equal(t, "\xfferr", p.stderr.String())
}
