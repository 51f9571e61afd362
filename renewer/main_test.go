package renewer_test

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The configuration of most tests, in round numbers: a lease is good
// for 9.899 s after its request was sent, its context ends after 9 s.
var (
	config = renewer.Config{
		TTL:            10100 * time.Millisecond,
		Margin:         899 * time.Millisecond,
		Heartbeat:      3 * time.Second,
		RequestTimeout: 2 * time.Second,
		Poll:           5 * time.Second,
		Node:           "here",
		Log:            renewer.Silent,
	}
	goodFor = 9 * time.Second
)

// rounding is what converting the clock drift may cost.
const rounding = time.Microsecond

// inBubble runs f in a bubble with a scripted store and a keeper on it, which
// is shut down at the end.
func inBubble(
	t *testing.T, cfg renewer.Config, f func(t *testing.T, s *script.Store, k *renewer.Keeper),
) {
	t.Helper()
	cfg.Log = cmp.Or(cfg.Log, renewer.Silent)
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		ended := false
		defer func() {
			s.Default(script.Release, script.Pass())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := k.Shutdown(ctx)
			waitFor(time.Minute) // for what a failed test has left
			if ended {
				require.NoError(t, err)
			}
		}()
		f(t, s, k)
		ended = true
	})
}

// waitFor lets d go by.
func waitFor(d time.Duration) { <-time.After(d) }

// aToken is a time in which the store's clock reaches one more fencing token,
// even if it is slow.
const aToken = 2 * time.Microsecond

// named is the request that one may be given of, for a name.
func named(name string, one []renewer.Request) renewer.Request {
	r := append(one, renewer.Request{})[0]
	r.Name = name
	return r
}

// slots is a limit of n.
func slots(n int) func() int { return func() int { return n } }

func acquire(t *testing.T, k *renewer.Keeper, name string, more ...renewer.Request) *renewer.Lease {
	t.Helper()
	l, err := k.Acquire(t.Context(), named(name, more))
	require.NoError(t, err)
	require.NotNil(t, l)
	return l
}

// lostAt waits for the lease's context to end and tells when it did, and why.
func lostAt(t *testing.T, l *renewer.Lease) (time.Time, *renewer.LostError) {
	t.Helper()
	<-l.Context().Done()
	at := time.Now()
	var lost *renewer.LostError
	require.ErrorAs(t, context.Cause(l.Context()), &lost)
	require.ErrorIs(t, context.Cause(l.Context()), renewer.ErrLost)
	require.False(t, l.Valid())
	require.Equal(t, error(lost), l.Err())
	return at, lost
}

func assertInstant(t *testing.T, want, got time.Time, msg string) {
	t.Helper()
	assert.WithinDuration(t, want, got, rounding, msg)
}

// background runs f and gives its error.
func background(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}
