// Package readme_test runs the programs that the README shows.
package readme_test

import (
	"bufio"
	"go/format"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// block is a program's file in the README: its first line has its name.
var block = regexp.MustCompile("(?s)\n```go\n// (\\w+\\.go)\n(.*?)```\n")

// turn is a line of a program that has begun or ended a transfer.
var turn = regexp.MustCompile(`(?m)^.* (begin|end) `)

// A reader who saves the README's files, and runs them, has a worker, an HTTP server and a gRPC
// server that exclude each other, and that leave no lock behind.
func TestTheProgramsOfTheReadme(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	web, freeWeb := freeAddr(t)
	rpc, freeRPC := freeAddr(t)
	dir := t.TempDir()
	save(t, dir, strings.NewReplacer("localhost:6379", redis.Addr(), ":8080", web, ":9090", rpc,
		"time.After(time.Second)", "time.After(100 * time.Millisecond)"))

	build(t, dir, "web", "rpc", "worker")

	// One pipe for all, so that lines are in the order in which they were written.
	said, say, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = said.Close() })
	var servers []*exec.Cmd
	freeWeb()
	freeRPC()
	for _, name := range []string{"web", "rpc", "worker"} {
		servers = append(servers, start(t, dir, name, say))
	}
	require.NoError(t, say.Close())
	listening(t, web)

	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() { transferByHTTP(t, web) })
		callers.Go(func() { transferByGRPC(t, rpc) })
	}
	callers.Wait()
	tasks := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { assert.NoError(t, tasks.Close()) }()
	require.Eventually(t, func() bool {
		queue, err := tasks.GetQueueInfo("default")
		return err == nil && queue.Processed == 3
	}, 30*time.Second, 10*time.Millisecond, "the worker's tasks are done")
	for _, server := range servers {
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		assert.NoError(t, server.Wait(), "it ends by itself")
	}

	text, err := io.ReadAll(said)
	require.NoError(t, err)
	var order []string
	for _, line := range turn.FindAllStringSubmatch(string(text), -1) {
		order = append(order, line[1])
	}
	assert.Equal(t, strings.Fields(strings.Repeat("begin end ", 3+2+2)), order,
		"they took turns: %s", text)
	client := redis.Client(t)
	keys, err := client.Do(t.Context(),
		client.B().Keys().Pattern("lockbeat:{account:*").Build()).AsStrSlice()
	require.NoError(t, err)
	assert.Empty(t, keys, "nothing of the lock is left")
}

// The programs for a schedule and for traces do what their pages say.
func TestTheProgramsOfTheDocs(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	traces := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			traces <- struct{}{}
		}
	}))
	t.Cleanup(collector.Close)
	dir := t.TempDir()
	save(t, dir, strings.NewReplacer("localhost:6379", redis.Addr(),
		"localhost:4318", collector.Listener.Addr().String(),
		"time.After(time.Second)", "time.After(100 * time.Millisecond)"))
	build(t, dir, "trace", "cron")

	said, say, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = said.Close() })
	trace := start(t, dir, "trace", say)
	nodes := []*exec.Cmd{start(t, dir, "cron", say), start(t, dir, "cron", say)}
	require.NoError(t, say.Close())
	require.NoError(t, trace.Wait())
	assert.Len(t, traces, 1, "a batch has reached the collector")

	var reports []string
	lines := bufio.NewScanner(said)
	for len(reports) < 3 && lines.Scan() {
		if _, due, ok := strings.Cut(lines.Text(), " report for "); ok {
			reports = append(reports, due)
		}
	}
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(reports))), 3, "a tick ran twice")
	for _, node := range nodes {
		require.NoError(t, node.Process.Signal(syscall.SIGTERM))
		assert.NoError(t, node.Wait())
	}
}

// save writes the files of the README and of the docs into dir, with other addresses, and checks
// how they look.
func save(t *testing.T, dir string, other *strings.Replacer) {
	t.Helper()
	var files [][]string
	for _, page := range []string{
		"README.md", "docs/cron.md", "docs/observe.md", "docs/operate.md", "docs/testing.md",
	} {
		text, err := os.ReadFile("../../" + page)
		require.NoError(t, err)
		found := block.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, found, page)
		if page == "README.md" {
			require.Len(t, found, strings.Count(string(text), "```go"),
				"each piece of Go is a whole file, with its name above")
		}
		files = append(files, found...)
	}
	for _, file := range files {
		name, code := file[1], file[2]
		formatted, err := format.Source([]byte(code))
		require.NoError(t, err, name)
		assert.Equal(t, string(formatted), code, "%s is formatted by gofmt", name)
		for line := range strings.Lines(code) {
			assert.LessOrEqual(t, len(strings.ReplaceAll(line, "\t", "    ")), 101, line)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(other.Replace(code)),
			0o600))
	}
}

// build builds programs, each from locks.go and a file of its own.
func build(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		compile(t, dir, name)
	}
}

// compile builds a program from locks.go and NAME.go, and further files.
func compile(t *testing.T, dir, name string, further ...string) {
	t.Helper()
	args := []string{
		"build", "-race=" + raceDetector(), "-ldflags=-s -w",
		"-o", filepath.Join(dir, name),
	}
	for _, file := range append([]string{"locks", name}, further...) {
		args = append(args, filepath.Join(dir, file+".go"))
	}
	//nolint:gosec // the arguments are the test's own
	built, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	require.NoError(t, err, "%s", built)
}

// raceDetector says whether this test has it. The programs are built
// alike, since their packages are compiled already then.
func raceDetector() string {
	info, _ := debug.ReadBuildInfo()
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value
		}
	}
	return "false"
}

// start runs a program that is built.
func start(t *testing.T, dir, name string, say *os.File) *exec.Cmd {
	t.Helper()
	server := exec.CommandContext(t.Context(), filepath.Join(dir, name))
	server.Stderr = say
	require.NoError(t, server.Start())
	return server
}

// freeAddr is a loopback address on which no other process can listen until it is freed.
func freeAddr(t *testing.T) (addr string, free func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free = func() { _ = listener.Close() }
	t.Cleanup(free)
	return listener.Addr().String(), free
}

func listening(t *testing.T, addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 30*time.Second, 10*time.Millisecond)
}

func transferByHTTP(t *testing.T, addr string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+addr+"/accounts/7/transfer?to=9", http.NoBody)
	if !assert.NoError(t, err) {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if assert.NoError(t, err) {
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.NoError(t, res.Body.Close())
	}
}

func transferByGRPC(t *testing.T, addr string) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if !assert.NoError(t, err) {
		return
	}
	_, err = pb.NewHealthClient(conn).Check(t.Context(), &pb.HealthCheckRequest{Service: "7"},
		grpc.WaitForReady(true))
	assert.NoError(t, err)
	assert.NoError(t, conn.Close())
}
