package stage_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play tells a story and returns what was printed.
func play(t *testing.T, tell stage.Story) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	held, err := stage.Play(t.Context(), stage.Setting{Program: "test", Out: &out}, tell)
	require.NoError(t, err)
	return out.String(), held
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	text, held := play(t, func(_ context.Context, s *stage.Stage) error {
		s.Claim("one", "1", true)
		return nil
	})
	assert.True(t, held)
	assert.Regexp(
		t, `(?m)^  one +1 +ok\n  locks left behind +0 +ok\n  time +.*s +ok\n\nAll of it held.\n$`,
		text,
	)

	text, held = play(t, func(_ context.Context, s *stage.Stage) error {
		s.Claim("one", "1", true)
		s.Claim("two", "3", false)
		return errors.New("the end was not reached")
	})
	assert.False(t, held)
	assert.Regexp(t, `(?m)^  two +3 +BROKEN$`, text)
	assert.True(t, strings.HasSuffix(text, "It did not hold: the end was not reached; two: 3.\n"),
		text)
}

// A story that can't even begin is an error, and no verdict.
func TestNoBeginning(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close() //nolint:errcheck // nothing was accepted
	for want, set := range map[string]stage.Setting{
		"connect to Redis at 127.0.0.1:1":                {Redis: "127.0.0.1:1"},
		"-listen: address 8080: missing port in":         {Listen: "8080"},
		`-listen: "http" is no port; give host:port`:     {Listen: "localhost:http"},
		`-listen: "99999" is no port; give host:port`:    {Listen: "localhost:99999"},
		"listen tcp " + taken.Addr().String() + ": bind": {Listen: taken.Addr().String()},
	} {
		var out bytes.Buffer
		set.Out, set.Program = &out, "test"
		held, err := stage.Play(t.Context(), set, func(_ context.Context, s *stage.Stage) error {
			_, err := s.Listener()
			return err
		})
		require.ErrorContains(t, err, want)
		assert.False(t, held)
		assert.Empty(t, out.String())
	}
}

// Nodes exclude each other, hear nothing while Redis is stopped, and
// have locks of their own where that was asked for.
func TestNodes(t *testing.T) {
	t.Parallel()
	two := func(t *testing.T, s *stage.Stage) (a, b *renewer.Keeper) {
		t.Helper()
		a, err := s.Keeper("a")
		require.NoError(t, err)
		b, err = s.Keeper("b")
		require.NoError(t, err)
		return a, b
	}
	try := func(ctx context.Context, k *renewer.Keeper) error {
		_, err := lockmw.Do(ctx, k, "x", func(context.Context) (any, error) {
			return nil, nil
		}, lockmw.Refuse())
		return err
	}
	play(t, func(ctx context.Context, s *stage.Stage) error {
		a, b := two(t, s)
		lease, err := a.Acquire(ctx, "x")
		require.NoError(t, err)
		require.ErrorIs(t, try(ctx, b), renewer.ErrHeld)
		s.Stop()
		require.ErrorIs(t, try(ctx, b), renewer.ErrUnavailable)
		s.Resume()
		// an error if the connection is not back yet; the key is freed once it is
		_ = lease.Release(ctx)
		require.Eventually(t, func() bool {
			return try(ctx, b) == nil
		}, 10*time.Second, 10*time.Millisecond)
		s.Stop() // but not for what comes at the end
		s.AtEnd(func(ctx context.Context) error {
			_, err := lockmw.Do(ctx, b, "x", func(context.Context) (any, error) {
				return nil, nil
			}, lockmw.Wait(5*time.Second))
			return err
		})
		return nil
	})
	server := redistest.Start(t)
	var out bytes.Buffer
	held, err := stage.Play(t.Context(),
		stage.Setting{Program: "test", Out: &out, Redis: server.Addr(), Apart: true},
		func(ctx context.Context, s *stage.Stage) error {
			a, b := two(t, s)
			lease, err := a.Acquire(ctx, "x")
			require.NoError(t, err)
			s.AtEnd(lease.Release) // later than the verdict
			assert.NoError(t, try(ctx, b))
			return nil
		})
	require.NoError(t, err)
	assert.False(t, held)
	assert.Regexp(t, `(?m)^It did not hold: locks left behind: 1 test-\w+-a:\{x\}\.$`, out.String())
	size, err := server.DBSize()
	require.NoError(t, err)
	assert.Zero(t, size)
}

// What can't be ended is an error, also where everything held.
func TestNoEnd(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	ended := false
	held, err := stage.Play(t.Context(), stage.Setting{Program: "test", Out: new(bytes.Buffer)},
		func(_ context.Context, s *stage.Stage) error {
			s.AtEnd(func(context.Context) error { ended = true; return nil })
			s.AtEnd(func(context.Context) error {
				assert.False(t, ended, "the last one first")
				return failed
			})
			s.Claim("one", "1", true)
			return nil
		})
	require.ErrorIs(t, err, failed)
	assert.True(t, held)
	assert.True(t, ended)
}

// A race of which both halves are wrong, or neither, is not what was claimed.
func TestRaces(t *testing.T) {
	t.Parallel()
	race := func(t *testing.T, apart func(transfer func() bool) bool) (verdict string) {
		t.Helper()
		text, held := play(t, func(ctx context.Context, s *stage.Stage) error {
			l := ledger.New(map[string]int{"open": stage.Funds, "safe": stage.Funds, "bob": 0})
			lane := func(account string) stage.Lane {
				return stage.Lane{Account: account, Send: func(ctx context.Context, _ int) bool {
					return apart(func() bool {
						_, err := l.Transfer(ctx,
							ledger.Order{From: account, To: "bob", Amount: 1, Seconds: 0.01})
						return err == nil
					})
				}}
			}
			return s.Races(ctx, l, lane("open"), lane("safe"))
		})
		assert.False(t, held)
		_, verdict, _ = strings.Cut(text, "It did not hold: ")
		return verdict
	}
	verdict := race(t, func(transfer func() bool) bool { return transfer() })
	assert.NotContains(t, verdict, "without the lock: the balance")
	assert.Contains(t, verdict, "race with the lock: the balance is right: 9")
	assert.Contains(t, verdict, "most transfers at once")

	var one sync.Mutex
	verdict = race(t, func(transfer func() bool) bool {
		one.Lock()
		defer one.Unlock()
		return transfer()
	})
	assert.Contains(t, verdict,
		"race without the lock: the balance is wrong: 960; 960 would be right")
	assert.NotContains(t, verdict, "with the lock: the balance is right")
	assert.Contains(t, verdict, "most transfers at once: without, and with the lock: 1, and 1")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string][2]string{
		"":              {"127.0.0.1:0", "127.0.0.1:0"},
		":8080":         {":8080", ":8081"},
		"[::1]:8080":    {"[::1]:8080", "[::1]:8081"},
		"localhost:0":   {"localhost:0", "localhost:0"},
		"localhost:100": {"localhost:100", "localhost:101"},
	} {
		first, second, err := stage.Addresses(listen)
		require.NoError(t, err)
		assert.Equal(t, want, [2]string{first, second})
	}
}

// told closes a channel when a text is printed.
type told struct {
	bytes.Buffer

	text string
	done chan struct{}
}

func (w *told) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		close(w.done)
	}
	return w.Buffer.Write(p)
}

// With -listen the servers go on after the verdict, until they are interrupted.
func TestListen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := &told{text: "go on serving", done: make(chan struct{})}
	addr, ended := "", false
	var held bool
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		held, err = stage.Play(ctx,
			stage.Setting{Program: "test", Out: out, Listen: "127.0.0.1:0", Colour: true},
			func(_ context.Context, s *stage.Stage) error {
				listener, err := s.Listener()
				if err != nil {
					return err
				}
				addr = listener.Addr().String()
				s.AtEnd(func(context.Context) error { ended = true; return listener.Close() })
				return nil
			})
	}()
	<-out.done
	conn, dialled := net.Dial("tcp", addr)
	cancel()
	<-over
	require.NoError(t, dialled)
	require.NoError(t, conn.Close())
	require.NoError(t, err)
	assert.True(t, held)
	assert.True(t, ended)
	assert.Contains(t, out.String(), " Ctrl-C ends them.\n", "without colour")
	assert.Contains(t, out.String(), "\x1b[1m\x1b[32mAll of it held.\x1b[0m\n")
}
