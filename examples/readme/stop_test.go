package readme_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A process with all three, stopped as docs/operate.md shows, ends what runs, refuses those in line
// at once, and leaves no lock behind and no task lost.
func TestStopAll(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	web, freeWeb := freeAddr(t)
	rpc, freeRPC := freeAddr(t)
	dir := t.TempDir()
	save(t, dir, strings.NewReplacer("localhost:6379", redis.Addr()))
	main, err := os.ReadFile("testdata/stopping.go")
	require.NoError(t, err)
	text := strings.NewReplacer(":8080", web, ":9090", rpc).Replace(string(main))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "all.go"), []byte(text), 0o600))
	compile(t, dir, "all", "stop")

	said, say, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = said.Close() })
	freeWeb()
	freeRPC()
	process := start(t, dir, "all", say)
	require.NoError(t, say.Close())
	listening(t, web)

	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { endsOrIsRefused(t, web) })
		callers.Go(func() { endsOrIsUnavailable(t, rpc) })
	}
	tasks := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	for range 3 {
		_, err := tasks.Enqueue(asynq.NewTask("transfer", []byte(`"7"`)))
		require.NoError(t, err)
	}
	require.NoError(t, tasks.Close())
	first := make([]byte, 1)
	_, err = said.Read(first) // a line: one has begun
	require.NoError(t, err)
	stopIt(t, process)
	callers.Wait()

	lines, err := io.ReadAll(said)
	require.NoError(t, err)
	assert.Equal(t, strings.Count(string(lines), " begin "), strings.Count(string(lines), " end "),
		"what began has ended: %s", lines)
	queues := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	queue, err := queues.GetQueueInfo("default")
	require.NoError(t, err)
	assert.Equal(t, 3, queue.Processed-queue.Failed+queue.Size, "no task is lost: %+v", queue)
	assert.Zero(t, queue.Archived+queue.Failed+queue.Active)
	require.NoError(t, queues.Close())
	client := redis.Client(t)
	keys, err := client.Do(t.Context(),
		client.B().Keys().Pattern("lockbeat:{account:7}").Build()).AsStrSlice()
	require.NoError(t, err)
	assert.Empty(t, keys, "the lock is free")
}

// stopIt sends SIGTERM, as Kubernetes does, and expects the process to end by itself: after the one
// transfer that runs, a second, and not after the eleven that are to.
func stopIt(t *testing.T, process *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = process.Process.Kill() })
	defer stop()
	require.NoError(t, process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, process.Wait(), "it ends by itself")
}

func endsOrIsRefused(t *testing.T, addr string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+addr+"/accounts/7/transfer", http.NoBody)
	if !assert.NoError(t, err) {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if assert.NoError(t, err) {
		assert.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, res.StatusCode)
		assert.NoError(t, res.Body.Close())
	}
}

func endsOrIsUnavailable(t *testing.T, addr string) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if !assert.NoError(t, err) {
		return
	}
	_, err = pb.NewHealthClient(conn).Check(t.Context(), &pb.HealthCheckRequest{Service: "7"})
	assert.Contains(t, []codes.Code{codes.OK, codes.Unavailable}, status.Code(err))
	assert.NoError(t, conn.Close())
}
