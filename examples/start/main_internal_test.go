package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// patience bounds every wait for an event, on a machine that is busy.
const patience = 30 * time.Second

// asProgram is set for a process that is to be a program, and not its test: to
// what it would be called with, and the addresses.
const asProgram = "TEST_START"

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(asProgram)); len(words) > 0 {
		os.Args = append(os.Args[:1], words[0])
		webAddr, rpcAddr, tracesAddr = words[1], words[2], words[3]
		var err error
		workTime, err = time.ParseDuration(words[4])
		must(err)
		main()
		return
	}
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// stage is where programs run: a Redis, and addresses for their servers.
type stage struct {
	redis            *redistest.Server
	web, rpc, traces string
	work             time.Duration
	said, say        *os.File       // what they log, in the order in which it was written
	kept             []net.Listener // so that no other process takes their addresses
}

func newStage(t *testing.T, work time.Duration) *stage {
	t.Helper()
	s := &stage{redis: redistest.Start(t), traces: "none", work: work}
	for _, addr := range []*string{&s.web, &s.rpc} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		*addr, s.kept = listener.Addr().String(), append(s.kept, listener)
	}
	var err error
	s.said, s.say, err = os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.said.Close() })
	return s
}

// start starts programs, and no others later.
func (s *stage) start(t *testing.T, names ...string) (started []*exec.Cmd) {
	t.Helper()
	for _, listener := range s.kept {
		require.NoError(t, listener.Close())
	}
	for _, name := range names {
		p := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test
		p.Env = append(os.Environ(), "LOCKBEAT_URL=redis://"+s.redis.Addr(), fmt.Sprintf(
			"%s=%s %s %s %s %v", asProgram, name, s.web, s.rpc, s.traces, s.work))
		p.Stderr = s.say
		require.NoError(t, p.Start())
		started = append(started, p)
	}
	require.NoError(t, s.say.Close())
	return started
}

// end tells programs to end, as Kubernetes does, and expects them to.
func end(t *testing.T, programs ...*exec.Cmd) {
	t.Helper()
	for _, p := range programs {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		assert.NoError(t, p.Wait(), "it ends by itself")
	}
}

// locks are keys of the lock.
func (s *stage) locks(t *testing.T, pattern string) []string {
	t.Helper()
	client := s.redis.Client(t)
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern(pattern).Build()).AsStrSlice()
	require.NoError(t, err)
	return keys
}

// queue is what asynq says of its queue.
func (s *stage) queue(t *testing.T) *asynq.QueueInfo {
	t.Helper()
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: s.redis.Addr()})
	defer func() { assert.NoError(t, inspector.Close()) }()
	queue, err := inspector.GetQueueInfo("default")
	if err != nil {
		return new(asynq.QueueInfo) // nothing has been enqueued yet
	}
	return queue
}

// A worker, an HTTP server and a gRPC server exclude each other, and leave no
// lock behind.
func TestTheyTakeTurns(t *testing.T) {
	t.Parallel()
	s := newStage(t, 100*time.Millisecond)
	servers := s.start(t, "web", "rpc", "worker")
	listening(t, s.web)
	listening(t, s.rpc)

	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() { assert.Equal(t, http.StatusOK, transferByHTTP(t, s.web)) })
		callers.Go(func() { assert.Equal(t, codes.OK, transferByGRPC(t, s.rpc)) })
	}
	callers.Wait()
	require.Eventually(t, func() bool { return s.queue(t).Processed == 3 }, patience,
		10*time.Millisecond, "the worker's tasks are done")
	end(t, servers...)

	text, err := io.ReadAll(s.said)
	require.NoError(t, err)
	var order []string
	for line := range strings.Lines(string(text)) {
		for _, word := range []string{"begin", "end"} {
			if strings.Contains(line, " "+word+" ") {
				order = append(order, word)
			}
		}
	}
	assert.Equal(t, strings.Fields(strings.Repeat("begin end ", 3+2+2)), order,
		"they took turns: %s", text)
	assert.Empty(t, s.locks(t, "lockbeat:{account:*"), "nothing of the lock is left")
}

// A process with all three ends what runs, refuses those in line at once, and
// leaves no lock behind and no task lost.
func TestStopAll(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Second)
	process := s.start(t, "all")[0]
	listening(t, s.web)

	var callers sync.WaitGroup
	var transferred atomic.Int64
	for range 4 {
		callers.Go(func() {
			// No connection: the request came when the server had stopped.
			code := transferByHTTP(t, s.web)
			assert.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable, noConnection},
				code)
			if code == http.StatusOK {
				transferred.Add(1)
			}
		})
		callers.Go(func() {
			code := transferByGRPC(t, s.rpc)
			assert.Contains(t, []codes.Code{codes.OK, codes.Unavailable}, code)
			if code == codes.OK {
				transferred.Add(1)
			}
		})
	}
	tasks := asynq.NewClient(asynq.RedisClientOpt{Addr: s.redis.Addr()})
	for range 3 {
		_, err := tasks.Enqueue(asynq.NewTask("transfer", []byte(`{"From":"7","To":"8"}`)))
		require.NoError(t, err)
	}
	require.NoError(t, tasks.Close())
	_, err := s.said.Read(make([]byte, 1)) // a line: one has begun
	require.NoError(t, err)
	// It ends after the one transfer that runs, a second, and not after the
	// eleven that are to.
	late := time.AfterFunc(7*time.Second, func() { _ = process.Process.Kill() })
	end(t, process)
	late.Stop()
	callers.Wait()

	lines, err := io.ReadAll(s.said)
	require.NoError(t, err)
	queue := s.queue(t)
	done := queue.Processed - queue.Failed
	assert.Equal(t, 3, done+queue.Size, "no task is lost: %+v", queue)
	assert.Zero(t, queue.Archived+queue.Failed+queue.Active)
	assert.Equal(t, int(transferred.Load())+done, strings.Count(string(lines), " end "),
		"what ran was answered: %s", lines)
	assert.Equal(t, strings.Count(string(lines), " end "), strings.Count(string(lines), " begin "),
		"what began has ended: %s", lines)
	assert.Empty(t, s.locks(t, "lockbeat:{account:7}"), "the lock is free")
}

// Two processes with one schedule run each tick once.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := newStage(t, 0)
	nodes := s.start(t, "cron", "cron")
	var reports []string
	for lines := bufio.NewScanner(s.said); len(reports) < 3 && lines.Scan(); {
		if _, due, ok := strings.Cut(lines.Text(), " report for "); ok {
			reports = append(reports, due)
		}
	}
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(reports))), 3, "a tick ran twice")
	end(t, nodes...)
}

// Traces reach a collector.
func TestTrace(t *testing.T) {
	t.Parallel()
	traces := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			traces <- struct{}{}
		}
	}))
	t.Cleanup(collector.Close)
	s := newStage(t, 100*time.Millisecond)
	s.traces = collector.Listener.Addr().String()
	require.NoError(t, s.start(t, "trace")[0].Wait())
	assert.Len(t, traces, 1, "a batch")
}

func listening(t *testing.T, addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		return err == nil && conn.Close() == nil
	}, patience, 10*time.Millisecond)
}

// noConnection is in place of a status.
const noConnection = 0

func transferByHTTP(t *testing.T, addr string) (code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+addr+"/accounts/7/transfer?to=9", http.NoBody)
	if !assert.NoError(t, err) {
		return noConnection
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Log(err)
		return noConnection
	}
	assert.NoError(t, res.Body.Close())
	return res.StatusCode
}

func transferByGRPC(t *testing.T, addr string) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if !assert.NoError(t, err) {
		return codes.Unknown
	}
	defer func() { assert.NoError(t, conn.Close()) }()
	_, err = pb.NewHealthClient(conn).Check(t.Context(), &pb.HealthCheckRequest{Service: "7"})
	return status.Code(err)
}

// Prometheus gets what the locks did.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newStage(t, 0)
	server := s.start(t, "web")[0]
	listening(t, s.web)
	require.Equal(t, http.StatusOK, transferByHTTP(t, s.web))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.web+"/metrics",
		http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Regexp(t, `(?m)^lockbeat_acquire_duration_seconds_count\{.*lockbeat_outcome="granted".*\} 1$`,
		string(text))
	end(t, server)
}
