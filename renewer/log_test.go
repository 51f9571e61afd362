package renewer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// logbook is what a log observer has written.
type logbook struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

// observer logs to the book from a level on.
func (b *logbook) observer(level slog.Level, opts ...renewer.LogOption) renewer.Observer {
	return renewer.NewLogObserver(
		slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: level})), opts...)
}

// lines are those with a message.
func (b *logbook) lines(t *testing.T, msg string) (found []map[string]any) {
	t.Helper()
	for text := range strings.Lines(b.String()) {
		line := make(map[string]any)
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		if line["msg"] == msg {
			found = append(found, line)
		}
	}
	return found
}

func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

func inLogged(
	t *testing.T, level slog.Level, f func(*testing.T, *script.Store, *renewer.Keeper, *logbook),
) {
	t.Helper()
	b := new(logbook)
	cfg := config
	cfg.Observer = b.observer(level)
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) { f(t, s, k, b) })
}

func TestLogObserver(t *testing.T) {
	t.Parallel()
	b := new(logbook)
	cfg := config
	cfg.Observer = renewer.NewLogObserver(
		slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})),
		renewer.LogNames(),
	)
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Renew, script.Pass(), script.Fail(errDown), script.Gone())
		l := acquire(t, k, "a\nb", renewer.Request{Operation: "transfer"})
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a\nb", Try: true})
		require.Error(t, err)
		<-l.Context().Done()
		waitFor(time.Second)
		require.Error(t, l.Release(t.Context()))
		synctest.Wait()
		for _, want := range []string{
			`level=DEBUG msg="lock acquired" lock="a\nb" operation=transfer wait=0s attempts=1 ` +
				`contended=false fence=` + fmt.Sprint(l.Fence()),
			`level=WARN msg="lock refused" lock="a\nb"`,
			`holder="here pid `,
			`level=DEBUG msg="leases renewed" leases=1 failed=0 gone=0`,
			`level=WARN msg="leases not renewed yet" leases=1 failed=1 gone=0`,
			`level=WARN msg="lease lost" lock="a\nb" operation=transfer`,
			`reason=taken found=deleted left=0s`,
			`level=WARN msg="operation ran on when others could have the lock"`,
			`overrun=1s`,
		} {
			require.Contains(t, b.String(), want)
		}
	})
}

func TestALongWaitIsLogged(t *testing.T) {
	t.Parallel()
	inLogged(t, slog.LevelInfo, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
		s.Script(script.Acquire, script.Taken(other, time.Second))
		short := acquire(t, k, "account:42", renewer.Request{Operation: "transfer"})
		require.NoError(t, short.Release(t.Context()))
		s.Script(script.Acquire, script.Taken(other, 500*time.Millisecond))
		short = acquire(t, k, "account:42", renewer.Request{Operation: "transfer"})
		require.NoError(t, short.Release(t.Context()))
		s.Script(script.Acquire, script.Taken(other, time.Second))
		short = acquire(t, k, "account:42", renewer.Request{StandBy: true})
		require.NoError(t, short.Release(t.Context()))
		require.Len(t, b.lines(t, "lock acquired after a wait"), 1, "one of 1001 ms, and none of 501")

		line := b.lines(t, "lock acquired after a wait")[0]
		require.Equal(t, "INFO", line["level"])
		require.Equal(t, "transfer", line["operation"])
		require.InDelta(t, float64(time.Second+time.Millisecond), line["wait"], 0)
		require.Equal(t, other.String(), line["holder"])
		require.Equal(t, hashOfAccount, line["lock_hash"])
		require.NotContains(t, b.String(), "account")
	})
}

// What is refused is at Warn, unless its caller expects that; none of it is
// silent at Info.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		level, msg string // of the line; "": there is none
		request    renewer.Request
		step       script.Step
		timeout    time.Duration
	}{
		"time is up": {
			level: "WARN", msg: "lock refused",
			request: renewer.Request{MaxWait: 2 * time.Second},
		},
		"time is up, by the context": {level: "WARN", msg: "lock refused", timeout: time.Second},
		"tried":                      {level: "WARN", msg: "lock refused", request: renewer.Request{Try: true}},
		"expected":                   {request: renewer.Request{MaxWait: time.Second, RefusalExpected: true}},
		"expected, after a while": {
			level: "INFO", msg: "lock is held, as its caller expects",
			request: renewer.Request{MaxWait: 2 * time.Second, RefusalExpected: true},
		},
		"the store is down": {
			level: "WARN", msg: "lock not acquired",
			request: renewer.Request{Try: true}, step: script.Fail(errDown),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLogged(t, slog.LevelInfo,
				func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
					s.Default(script.Acquire, script.Taken(other, time.Minute))
					if c.msg == "lock not acquired" {
						s.Default(script.Acquire, c.step)
					}
					ctx := t.Context()
					if c.timeout > 0 {
						limited, cancel := context.WithTimeout(ctx, c.timeout)
						defer cancel()
						ctx = limited
					}
					_, err := k.Acquire(ctx, named("account:42", []renewer.Request{c.request}))
					require.Error(t, err)
					if c.msg == "" {
						require.Empty(t, b.String())
						return
					}
					lines := b.lines(t, c.msg)
					require.Len(t, lines, 1, b.String())
					require.Equal(t, c.level, lines[0]["level"])
					require.Equal(t, hashOfAccount, lines[0]["lock_hash"])
					require.Equal(t, 1, strings.Count(b.String(), "\n"))
					require.NotContains(t, b.String(), "account")
				})
		})
	}
}

// A caller who leaves soon is nobody's business; one who has waited is.
func TestACallerWhoLeavesIsLogged(t *testing.T) {
	t.Parallel()
	inLogged(t, slog.LevelInfo, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
		s.Default(script.Acquire, script.Taken(other, time.Minute))
		for _, after := range []time.Duration{time.Second, time.Second + time.Nanosecond} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
			require.ErrorIs(t, err, context.Canceled)
		}
		lines := b.lines(t, "caller left before it got the lock")
		require.Len(t, lines, 1)
		require.Equal(t, "INFO", lines[0]["level"])
	})
}

// While the store does not answer, each heartbeat, release and clean-up fails;
// and in a storm many callers are refused. The log says so once a second of
// each kind, and of each operation, and counts the others. At Debug all of them
// are there.
func TestNothingFloodsTheLog(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := new(logbook)
				o := b.observer(level)
				const each, seconds = 10, 3
				for range each * seconds {
					for _, operation := range []string{"transfer", "report"} {
						o.AcquireEnd(t.Context(), renewer.AcquireEnd{
							AcquireStart: renewer.AcquireStart{
								Name: "account:42", Operation: operation,
							},
							Err: renewer.ErrBusy,
						})
					}
					o.Renewed(t.Context(), renewer.Renewed{Leases: 7, Failed: 7, Err: errDown})
					o.Released(t.Context(), renewer.Released{Name: "account:42", Err: errDown})
					o.Fault(renewer.Fault{Doing: "clean up", Name: "account:42", Err: errDown})
					waitFor(time.Second / each)
				}
				for msg, kinds := range map[string]int{
					"leases not renewed yet": 1, "lock not freed yet": 1, "trouble with locks": 1,
					"lock refused": 2,
				} {
					var counts, want []any
					for i := range kinds * seconds {
						if want = append(want, each-1.0); i < kinds {
							want[i] = nil
						}
					}
					for _, line := range b.lines(t, msg) {
						if line["level"] == "WARN" {
							counts = append(counts, line["left_out"])
						}
					}
					require.Equal(t, want, counts, msg)
					if level == slog.LevelDebug {
						require.Len(t, b.lines(t, msg), kinds*each*seconds, msg)
					}
				}
			})
		})
	}
}

// A fault that is no lock's comes once for each cause: none of them is left
// out. One of the configuration is not called the store's.
func TestFaultsThatAreToldOnce(t *testing.T) {
	t.Parallel()
	b := new(logbook)
	o := b.observer(slog.LevelInfo)
	for range 3 {
		o.Fault(renewer.Fault{Doing: "watch", Err: errDown})
		o.Fault(renewer.Fault{Doing: "serve HTTP", Err: renewer.ErrConfig})
	}
	require.Len(t, b.lines(t, "trouble with locks"), 3)
	wrong := b.lines(t, "locks are set up wrongly")
	require.Len(t, wrong, 3)
	require.Equal(t, "serve HTTP", wrong[0]["doing"])
}

// An operation that returns as soon as it is told of a loss is not warned of,
// though the key was gone before.
func TestAnOperationThatStopsAtOnceHasNotRunOn(t *testing.T) {
	t.Parallel()
	for overrun, warns := range map[time.Duration]int{
		10 * time.Millisecond: 0, 10*time.Millisecond + 1: 1,
	} {
		b := new(logbook)
		b.observer(slog.LevelInfo).Released(t.Context(), renewer.Released{
			Name: "a", Lost: &renewer.LostError{}, Overrun: overrun,
		})
		require.Len(t, b.lines(t, "operation ran on when others could have the lock"), warns,
			overrun)
	}
}

// Operations should be few. If they are not, they share a line, and memory does
// not grow.
func TestTheLogCountsFewKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := new(logbook)
		o := b.observer(slog.LevelInfo)
		refuse := func(operation string) {
			o.AcquireEnd(t.Context(), renewer.AcquireEnd{
				AcquireStart: renewer.AcquireStart{Name: "a", Operation: operation},
				Err:          renewer.ErrBusy,
			})
		}
		for i := range 10_000 {
			refuse(fmt.Sprint("operation ", i))
		}
		require.Len(t, b.lines(t, "lock refused"), renewer.MostLogKinds+1)
		require.Equal(t, renewer.MostLogKinds+1, renewer.LogKinds(o))
		waitFor(time.Second)
		refuse("another")
		lines := b.lines(t, "lock refused")
		require.InDelta(t, 10_000-renewer.MostLogKinds-1, lines[len(lines)-1]["left_out"], 0)
	})
}

// A name is in no line, whatever goes wrong, unless it may be; a store that
// names it in its errors included.
func TestNamesInTheLog(t *testing.T) {
	t.Parallel()
	const name = "mail:jane@example.org"
	for how, c := range map[string]struct {
		opts        []renewer.LogOption
		attr, value string
	}{
		"hashed": {attr: "lock_hash", value: renewer.HashName(name, nil)},
		"with a secret": {
			opts: []renewer.LogOption{renewer.LogSecret([]byte("pepper"))},
			attr: "lock_hash", value: renewer.HashName(name, []byte("pepper")),
		},
		"shown": {opts: []renewer.LogOption{nil, renewer.LogNames()}, attr: "lock", value: name},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := new(logbook)
			cfg := config
			cfg.Observer = b.observer(slog.LevelDebug, c.opts...)
			inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				bad := fmt.Errorf("no answer about %s", name)
				s.Script(script.Acquire, script.Fail(bad))
				s.Script(script.Release, script.Pass(), script.Fail(bad), script.Fail(bad))
				_, err := k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
				require.ErrorIs(t, err, renewer.ErrUnavailable)
				synctest.Wait()
				s.Script(script.Renew, script.Gone())
				lost := acquire(t, k, name)
				_, err = k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
				require.ErrorIs(t, err, renewer.ErrBusy)
				<-lost.Context().Done()
				require.Error(t, lost.Release(t.Context()))
				l := acquire(t, k, name)
				require.Error(t, l.Release(t.Context()))
				k.Observer().Unlocked(t.Context(), renewer.Unlocked{Name: name, Err: err})
				waitFor(time.Minute)
				for _, msg := range []string{
					"lock not acquired", "lock acquired", "lock refused",
					"lease lost", "lock not freed yet", "trouble with locks",
					"operation runs without its lock",
				} {
					for _, line := range b.lines(t, msg) {
						require.Equal(t, c.value, line[c.attr], msg)
					}
					require.NotEmpty(t, b.lines(t, msg), msg)
				}
				require.Equal(t, how == "shown", strings.Contains(b.String(), "jane"), b.String())
			})
		})
	}
	require.Panics(t, func() { renewer.LogSecret(nil) })
}

// A line had two ages of the holder's lease: at its end, and in the error's
// text when it was last seen.
func TestARefusalIsLoggedWithOneAge(t *testing.T) {
	t.Parallel()
	inLogged(t, slog.LevelWarn, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
		require.Equal(t, store.StatusHeld, s.Acquire(t.Context(), []store.Claim{{
			Name: "name", Owner: strings.Repeat("a", store.OwnerLen), TTL: time.Minute,
			Holder: store.Holder{Node: "there", PID: 7},
		}})[0].Status)
		waitFor(3 * time.Second)
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "name", MaxWait: 2 * time.Second})
		require.ErrorContains(t, err, "last seen with there pid 7, for 3s by then")
		lines := b.lines(t, "lock refused")
		require.Len(t, lines, 1)
		require.Equal(t, "there pid 7", lines[0]["holder"])
		require.EqualValues(t, 5*time.Second, lines[0]["held_for"])
		require.Equal(t, "lockbeat: acquire a lock: held by another owner after 2s; lapses in 57s "+
			"unless renewed", lines[0]["error"])
	})
}
