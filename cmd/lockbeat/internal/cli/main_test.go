package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(8) // they wait, most of the time
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// patience bounds what a busy machine may take.
const patience = 20 * time.Second

// site is a server, and the users of it.
type site struct{ *redistest.Server }

// text is what was written. It may be read meanwhile.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// config is a file for a user, "user:password@", or for none.
func (s site) config(t *testing.T, user string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	lines := append([]string{"LOCKBEAT_URL=redis://" + user + s.Addr()}, more...)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

// run runs the program until it ends, or until enough is printed.
func run(
	t *testing.T, config string, enough func(printed string) bool, args ...string,
) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs text
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Execute(ctx, append([]string{"--config", config}, args...), &out, &errs)
	}()
	if enough != nil {
		require.Eventually(t, func() bool {
			return len(ended) > 0 || enough(out.String()+errs.String())
		}, patience, 10*time.Millisecond)
		cancel()
	}
	status = <-ended
	return out.String(), errs.String(), status
}

// process is a keeper, as of a process of its own, and what it logs.
type process struct {
	*renewer.Keeper
	store *redisstore.Store
	log   *text
}

// start starts a process. It warns early of locks that are held for long.
func (s site) start(
	t *testing.T, node string, ttl time.Duration, opts ...redisstore.Option,
) process {
	t.Helper()
	store, err := redisstore.Open(t.Context(),
		redisstore.Deployment{Option: s.ClientOption(), TTL: ttl},
		append(opts, redisstore.Log(renewer.Silent))...)
	require.NoError(t, err)
	p := process{store: store, log: new(text)}
	p.Keeper, err = renewer.New(store, renewer.Config{
		TTL: ttl, Node: node, HoldWarning: 50 * time.Millisecond,
		Observer: renewer.NewLogObserver(slog.New(slog.NewTextHandler(p.log, nil))),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = p.Shutdown(ctx) // its Redis may be away
		store.Close()
	})
	return p
}

// hangs has an operation take a lock and go on with it, until the test ends,
// whatever becomes of the lock.
func (p process) hangs(
	t *testing.T, name, operation string, more ...renewer.Request,
) *renewer.Lease {
	t.Helper()
	r := append(more, renewer.Request{})[0]
	r.Name, r.Operation = name, operation
	lease, err := p.Acquire(t.Context(), r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// tellsOfCallers returns when the heartbeat of a lock has told that n callers
// wait beside it.
func (p process) tellsOfCallers(t *testing.T, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		lock, err := inspect.Show(t.Context(), p.store, name, false)
		return err == nil && lock.Callers() == n
	}, patience, 10*time.Millisecond)
}

// waits has n callers of a process wait for a lock until the test ends, and
// returns when they do.
func (p process) waits(t *testing.T, name string, n int, more ...renewer.Request) {
	t.Helper()
	r := append(more, renewer.Request{})[0]
	r.Name = name
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if lease, err := p.Acquire(ctx, r); err == nil {
				_ = lease.Release(context.Background())
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	require.Eventually(t, func() bool {
		waiting := 0
		for w := range p.Waiting() {
			if w.Name == name {
				waiting++
			}
		}
		return waiting == n
	}, patience, time.Millisecond)
}

// inLine waits until n processes stand in line for a lock.
func (p process) inLine(t *testing.T, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		lock, err := inspect.Show(t.Context(), p.store, name, false)
		return err == nil && lock.Waiting == n
	}, patience, time.Millisecond)
}

// logs waits for a line of the log that has these words in it.
func (p process) logs(t *testing.T, words ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for line := range strings.Lines(p.log.String()) {
			all := true
			for _, word := range words {
				all = all && strings.Contains(line, word)
			}
			if all {
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "no line has %q", words)
}
