package serve_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// programEnv makes the test binary the program, which listens until a signal
// comes.
const programEnv = "TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start starts the program, and returns where it listens.
func start(t *testing.T, args ...string) (url string, end func() int) {
	t.Helper()
	s := redistest.Start(t)
	require.NoError(t, s.Do("SET", "lockbeat:{order:42}", "x").Error())
	all := append([]string{
		"serve", "--config", file(t, "LOCKBEAT_URL=redis://"+s.Addr()), "--listen", "127.0.0.1:0",
	}, args...)
	cmd := exec.Command(os.Args[0], all...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	url = strings.Fields(line)[1]
	require.True(t, strings.HasPrefix(url, "http://127.0.0.1:"), line)
	return url, func() int {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}

// get asks for a page, by a host's name and with a password if they are not "".
func get(t *testing.T, url, host, password string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if r.Host = host; password != "" {
		r.SetBasicAuth("alice", password)
	}
	client := &http.Client{
		Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
	}
	answer, err := client.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

func TestServe(t *testing.T) {
	t.Parallel()
	url, end := start(t)
	for _, host := range []string{"", "localhost:80", "[::1]:1"} {
		status, body := get(t, url, host, "")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, "order:42")
	}
	status, body := get(t, url, "evil.example", "")
	assert.Equal(t, http.StatusMisdirectedRequest, status)
	assert.NotContains(t, body, "order:42")
	assert.Zero(t, end())
}

func TestServeAsksForThePassword(t *testing.T) {
	t.Parallel()
	url, end := start(t, "--allow-break", "--password-file", file(t, "sesame\n"))
	for password, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "sesame": http.StatusOK,
	} {
		status, body := get(t, url, "", password)
		assert.Equal(t, want, status)
		assert.Equal(t, want == http.StatusOK, strings.Contains(body, "order:42"))
	}
	assert.Zero(t, end())
}

// Of two tabs one can tell which Redis, prefix and environment each shows.
func TestServeSaysWhichLocks(t *testing.T) {
	t.Parallel()
	url, end := start(t)
	_, body := get(t, url, "", "")
	where := regexp.MustCompile(`<title>127\.0\.0\.1:\d+, prefix lockbeat: · Locks</title>`)
	assert.Regexp(t, where, body)
	assert.Contains(t, body, `<p class="where grey">`)
	assert.Zero(t, end())

	url, end = start(t, "--environment", "<production>", "--colour", "red",
		"--trace-url", "https://traces.example/{trace}", "--secret-file", file(t, "pepper\n"))
	_, body = get(t, url, "", "")
	assert.Contains(t, body, "<title>&lt;production&gt;, 127.0.0.1:")
	assert.Contains(t, body, `<p class="where red">`)
	assert.Contains(t, body, `data-trace="https://traces.example/{trace}"`)
	_, body = get(t, url+"?q="+renewer.HashName("order:42", []byte("pepper")), "", "")
	assert.Contains(t, body, ">1 of 1</output>")
	assert.Zero(t, end())
}

// Without a password the page is for this machine alone, and breaks nothing.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"},
		{"--listen", ":0"},
		{"--listen", "192.0.2.1:0"},
		{"--listen", "example.org:0"},
		{"--allow-break"},
		{"--listen", "nonsense"},
		{"--password-file", "/does/not/exist"},
		{"--secret-file", "/does/not/exist"},
		{"argument"},
	} {
		var stderr strings.Builder
		status := cli.Main(append([]string{"serve"}, args...), io.Discard, &stderr)
		assert.Equal(t, 64, status, args)
		assert.NotEmpty(t, stderr.String())
	}
}
