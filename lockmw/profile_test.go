package lockmw_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// hung runs an operation as a user does, and returns what a goroutine profile
// shows meanwhile.
type hung func(k *renewer.Keeper, fn func(context.Context) error) error

// The profile of goroutines names the lock of a function that hangs, whichever
// way it was called, and goroutines that the function has started, if that was
// asked for.
func TestAProfileNamesTheLock(t *testing.T) {
	t.Parallel()
	op := lockmw.Operation("charge")
	for name, c := range map[string]struct {
		run  hung
		want string // the labels; sorted, as the profile has them
	}{
		"Do": {
			func(k *renewer.Keeper, fn func(context.Context) error) error {
				_, err := lockmw.Do(t.Context(), k, "order:1",
					func(ctx context.Context) (any, error) { return nil, fn(ctx) }, op)
				return err
			},
			`{"lock":"order:1", "operation":"charge"}`,
		},
		"several": {
			func(k *renewer.Keeper, fn func(context.Context) error) error {
				err := lockmw.Run(t.Context(), k, lockmw.All("order:2", "order:3"), fn, op)
				return err
			},
			`{"lock":"order:2, order:3", "operation":"charge"}`,
		},
		"a limit": {
			func(k *renewer.Keeper, fn func(context.Context) error) error {
				err := lockmw.Run(t.Context(), k, lockmw.Limit("user:4", 3), fn, op)
				return err
			},
			`{"lock":"user:4", "operation":"charge"}`,
		},
		"a leader": {
			func(k *renewer.Keeper, fn func(context.Context) error) error {
				return lockmw.Lead(t.Context(), k, "leader:5", fn, op)
			},
			`{"lock":"leader:5", "operation":"charge"}`,
		},
		"HTTP": {
			func(k *renewer.Keeper, fn func(context.Context) error) (err error) {
				key := func(*http.Request) string { return "account:6" }
				httpmw.Middleware(k, key, op)(http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) { err = fn(r.Context()) },
				)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", http.NoBody))
				return err
			},
			`{"lock":"account:6", "operation":"charge"}`,
		},
	} {
		for _, labelled := range []bool{true, false} {
			if !labelled && name != "Do" {
				continue
			}
			k, err := renewer.New(memory.New(),
				renewer.Config{TTL: renewer.DefaultTTL, ProfileLabels: labelled})
			require.NoError(t, err)
			var during string
			require.NoError(t, c.run(k, func(ctx context.Context) error {
				profiled := make(chan string)
				go func() { profiled <- profile(t) }()
				during = <-profiled
				lock, ok := pprof.Label(ctx, "lock")
				assert.Equal(t, labelled, ok, "%s: %s", name, lock)
				return nil
			}))
			if labelled {
				assert.Contains(t, during, c.want, name)
			}
			require.Eventually(t, func() bool { return !strings.Contains(profile(t), c.want) },
				time.Minute, time.Millisecond, "%s: when the goroutine above has ended", name)
			require.NoError(t, k.Shutdown(t.Context()))
		}
	}
}

// profile is what /debug/pprof/goroutine?debug=1 shows.
func profile(t *testing.T) string {
	t.Helper()
	var text bytes.Buffer
	assert.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	return text.String()
}
