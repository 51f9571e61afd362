//go:build linux

package locks_test

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is the program at a terminal of its own.
type terminal struct {
	cmd    *exec.Cmd
	person *os.File // what a person types goes in, and comes out what they see
	line   *os.File // the program's end

	mu   sync.Mutex
	seen bytes.Buffer
}

// at starts the program at a terminal of 40 columns.
func (s site) at(t *testing.T, args ...string) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 40}))
	line, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = line.Close() })

	x := &terminal{
		cmd:    exec.Command(os.Args[0], append([]string{"--config", s.config}, args...)...),
		person: person, line: line,
	}
	x.cmd.Env = append(os.Environ(), programEnv+"=1", "COLUMNS=")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = line, line, line
	require.NoError(t, x.cmd.Start())
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	go x.look()
	return x
}

// look keeps what is to be seen, until the terminal is closed.
func (x *terminal) look() {
	some := make([]byte, 4096)
	for {
		n, err := x.person.Read(some)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.seen.Write(some[:n])
		x.mu.Unlock()
	}
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

// await waits until something is to be seen.
func (x *terminal) await(t *testing.T, what string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.Contains(x.text(), what)
	}, patience, time.Millisecond, x.text)
}

func (x *terminal) types(t *testing.T, keys string) {
	t.Helper()
	_, err := x.person.WriteString(keys)
	require.NoError(t, err)
}

// ends waits for the end of the program, and returns its exit status.
func (x *terminal) ends(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = x.cmd.Process.Kill() })
	defer timer.Stop()
	_ = x.cmd.Wait()
	return x.cmd.ProcessState.ExitCode()
}

// mode is how the terminal treats what is typed.
func (x *terminal) mode(t *testing.T) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(x.line.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return *mode
}

// At a terminal top paints over what it has painted, and whatever ends it gives
// the terminal back.
func TestTopAtATerminal(t *testing.T) {
	t.Parallel()
	s := start(t)
	name := "order:" + strings.Repeat("x", 100) + "\x1b[2J"
	require.NoError(t, s.Do("SET", "lockbeat:{foreign}", "x").Error())
	hold(t, s.keeper(t, "web-1", patience), name)
	for end, act := range map[string]func(*terminal){
		"q":      func(x *terminal) { x.types(t, "q") },
		"Ctrl-C": func(x *terminal) { x.types(t, "\x03") },
		"TERM":   func(x *terminal) { _ = x.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		x := s.at(t, "top", "--every", "100ms")
		before := x.mode(t)
		x.await(t, "2 held, 0 waiting")
		x.await(t, "foreign")
		assert.NotEqual(t, before, x.mode(t), "no key is shown")
		act(x)
		assert.Zero(t, x.ends(t), end)
		x.await(t, "\x1b[?1049l")
		assert.Equal(t, before, x.mode(t), end)
		painted := x.text()
		assert.True(t, strings.HasPrefix(painted, "\x1b[?1049h\x1b[?25l\x1b[H"), "%q", painted)
		assert.NotContains(t, painted, "\x1b[2J")
		for line := range strings.SplitSeq(painted, "\r\n") {
			line = strings.NewReplacer("\x1b[K", "", "\x1b[J", "", "\x1b[H", "",
				"\x1b[?1049h", "", "\x1b[?25l", "", "\x1b[?1049l", "", "\x1b[?25h", "").Replace(line)
			assert.LessOrEqual(t, len([]rune(line)), 40, "%q", line)
		}
	}
}

// A store that is away is shown, and top goes on when it is back.
func TestTopAtATerminalWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := start(t)
	require.NoError(t, s.Do("SET", "lockbeat:{foreign}", "x").Error())
	x := s.at(t, "top", "--every", "100ms")
	x.await(t, "1 held")
	s.Kill()
	x.await(t, "0 held")
	x.await(t, "unavailable")
	require.NoError(t, s.Restart())
	require.NoError(t, s.Do("SET", "lockbeat:{a}", "x").Error())
	require.NoError(t, s.Do("SET", "lockbeat:{b}", "x").Error())
	x.await(t, "2 held")
	x.types(t, "q")
	assert.Zero(t, x.ends(t))
}

func TestBreakAsks(t *testing.T) {
	t.Parallel()
	s := start(t)
	lease := hold(t, s.keeper(t, "web-1", patience), "order:1")
	for _, answer := range []string{"n\n", "\n", "what?\n", "\x04"} {
		x := s.at(t, "break", "order:1", "--why", "hangs")
		x.await(t, "token      "+strconv.FormatInt(lease.Fence(), 10))
		x.await(t, "[y/N] ")
		x.types(t, answer)
		assert.Equal(t, 5, x.ends(t), answer)
		x.await(t, "nothing was broken")
	}
	require.NoError(t, lease.Context().Err())
	x := s.at(t, "break", "order:1", "--why", "hangs")
	x.await(t, "[y/N] ")
	x.types(t, "y\n")
	assert.Zero(t, x.ends(t))
	<-lease.Context().Done()
}

// A person sees at a glance how bad it is, and a pipe gets the table alone.
func TestListAtATerminal(t *testing.T) {
	t.Parallel()
	s := start(t)
	hold(t, s.keeper(t, "web-1", patience), "order:1")
	x := s.at(t, "ls")
	x.await(t, "1 held, 0 waiting")
	x.await(t, "order:1")
	assert.Zero(t, x.ends(t))
	assert.NotContains(t, s.ok(t, "ls"), "held")
}
