package locks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// programEnv makes the test binary the program, for what needs a terminal.
const programEnv = "TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	suite.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// patience bounds what a busy machine may take.
const patience = 20 * time.Second

// site is a server, and the program's configuration for it.
type site struct {
	*redistest.Server
	config string
}

func start(t *testing.T) site {
	t.Helper()
	s := site{Server: redistest.Start(t)}
	s.config = configFor(t, "redis://"+s.Addr())
	return s
}

func configFor(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(path, []byte("LOCKBEAT_URL="+url+"\n"), 0o600))
	return path
}

// as makes a user with these rights, and is the site as that user sees it.
func (s site) as(t *testing.T, name, rights string) site {
	t.Helper()
	rules := append([]string{
		"ACL", "SETUSER", name, "reset", "resetchannels", "on", ">secret",
		"~lockbeat:{*", "&lockbeat:{*",
	}, strings.Fields(rights)...)
	require.NoError(t, s.Do(rules...).Error())
	return site{Server: s.Server, config: configFor(t, "redis://"+name+":secret@"+s.Addr())}
}

// result is what one run has printed, and its exit status.
type result struct {
	stdout, stderr string
	status         int
}

// run runs the program. Whatever it prints has nothing in it that a terminal
// could take for an order.
func (s site) run(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := cli.Main(append([]string{"--config", s.config}, args...), &stdout, &stderr)
	r := result{stdout.String(), stderr.String(), status}
	for _, c := range r.stdout + r.stderr {
		require.True(t, c == '\n' || unicode.IsPrint(c), "%q in %q", c, r)
	}
	return r
}

// ok runs the program, and returns what it has printed.
func (s site) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := s.run(t, args...)
	require.Zero(t, r.status, r.stderr)
	require.Empty(t, r.stderr)
	return r.stdout
}

// lockOf is a lock as --json shows it.
type lockOf struct {
	Name  string
	Bytes []byte `json:"name_bytes"`
	Hash  string
	Limit bool
	State string
	Slots []struct {
		Node, Operation string
		PID             int
		Token           int64
		Age             float64 `json:"age_seconds"`
		TTL             float64 `json:"ttl_seconds"`
		Renewed         *bool
		Broken          *struct {
			By, Why string
			Told    bool
		}
	}
	Waiting   int
	Processes int
	Callers   int
	Tasks     int
	Places    []struct{ Since time.Time }
}

// decode reads what --json prints.
func decode(t *testing.T, text string) (locks []lockOf, total int, cut bool) {
	t.Helper()
	var d struct {
		Locks []lockOf
		Total int
		Cut   bool
	}
	require.NoError(t, json.Unmarshal([]byte(text), &d), text)
	return d.Locks, d.Total, d.Cut
}

// keeper makes a keeper of a process of its own.
func (s site) keeper(t *testing.T, node string, ttl time.Duration) *renewer.Keeper {
	t.Helper()
	locks, err := redisstore.Open(t.Context(),
		redisstore.Deployment{Option: s.ClientOption(), TTL: ttl})
	require.NoError(t, err)
	k, err := renewer.New(locks, renewer.Config{TTL: ttl, Node: node, Log: renewer.Silent})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, k.Shutdown(ctx))
		locks.Close()
	})
	return k
}

// hold acquires a lock, and frees it when it is lost or the test ends.
func hold(t *testing.T, k *renewer.Keeper, name string, more ...renewer.Request) *renewer.Lease {
	t.Helper()
	r := append(more, renewer.Request{})[0]
	r.Name = name
	lease, err := k.Acquire(t.Context(), r)
	require.NoError(t, err)
	stop := context.AfterFunc(lease.Context(), func() {
		_ = lease.Release(context.Background())
	})
	t.Cleanup(func() {
		if stop() {
			_ = lease.Release(context.Background())
		}
	})
	return lease
}

// wait has a keeper wait for a lock, until the test ends or it is had.
func (s site) wait(t *testing.T, k *renewer.Keeper, name string, more ...renewer.Request) {
	t.Helper()
	r := append(more, renewer.Request{})[0]
	r.Name = name
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if lease, err := k.Acquire(ctx, r); err == nil {
			_ = lease.Release(context.Background())
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	require.Eventually(t, func() bool {
		locks, _, _ := decode(t, s.ok(t, "show", name, "--json", "--look", "0"))
		for _, lock := range locks {
			if lock.Waiting > 0 {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond)
}

// three is a limit of three at once.
func three() int { return 3 }
