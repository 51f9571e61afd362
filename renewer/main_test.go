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

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
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

// hooked is a scripted store whose methods may be others: each of these is
// called in place of the store's own, which it may call; nil for none.
type hooked struct {
	*script.Store
	acquire        func(ctx context.Context, claims []store.Claim) []store.Grant
	renew, release func(ctx context.Context, holds []store.Hold) []store.Answer
}

func (s *hooked) Engine() store.Store { return s }

func (s *hooked) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	if s.acquire != nil {
		return s.acquire(ctx, claims)
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *hooked) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	if s.renew != nil {
		return s.renew(ctx, holds)
	}
	return s.Store.Renew(ctx, holds)
}

func (s *hooked) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	if s.release != nil {
		return s.release(ctx, holds)
	}
	return s.Store.Release(ctx, holds)
}

// inBubble runs f in a bubble with a scripted store and a keeper on it, which
// is shut down at the end.
func inBubble(
	t *testing.T, cfg renewer.Config, f func(t *testing.T, s *script.Store, k *renewer.Keeper),
) {
	t.Helper()
	onHooked(t, cfg, func(t *testing.T, s *hooked, k *renewer.Keeper) { f(t, s.Store, k) })
}

// onHooked is inBubble with a store whose methods f may change.
func onHooked(
	t *testing.T, cfg renewer.Config, f func(t *testing.T, s *hooked, k *renewer.Keeper),
) {
	t.Helper()
	cfg.Log = cmp.Or(cfg.Log, renewer.Silent)
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{Store: script.New()}
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		defer func() {
			s.Default(script.Release, script.Pass())
			shutDown(t, k)
		}()
		f(t, s, k)
	})
}

// inMemory is a store in memory, with hooks as in hooked.
type inMemory struct {
	engine.Whole
	acquire func(ctx context.Context, claims []store.Claim) []store.Grant
	replace func(ctx context.Context, r contract.Replacement) (int64, error)
}

func (s *inMemory) Engine() store.Store { return s }

func (s *inMemory) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	if s.acquire != nil {
		return s.acquire(ctx, claims)
	}
	return s.Whole.Acquire(ctx, claims)
}

func (s *inMemory) Replace(ctx context.Context, r contract.Replacement) (int64, error) {
	if s.replace != nil {
		return s.replace(ctx, r)
	}
	return s.Whole.Replace(ctx, r)
}

// onMemory runs f in a bubble with a store in memory and a keeper on it, which
// is shut down at the end.
func onMemory(
	t *testing.T, cfg renewer.Config, f func(t *testing.T, s *inMemory, k *renewer.Keeper),
) {
	t.Helper()
	cfg.Log = cmp.Or(cfg.Log, renewer.Silent)
	synctest.Test(t, func(t *testing.T) {
		s := &inMemory{Whole: engine.In(memory.New())}
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		defer shutDown(t, k)
		f(t, s, k)
	})
}

// shutDown shuts a keeper down at the end of a test. One that has failed may
// have left leases, whose heartbeats would keep a bubble going for ever.
func shutDown(t *testing.T, k *renewer.Keeper) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := k.Shutdown(ctx)
	if t.Failed() {
		waitFor(time.Minute)
		return
	}
	assert.NoError(t, err)
}

// unanswered are grants of a question that hangs until its context ends.
func unanswered(ctx context.Context, claims []store.Claim) []store.Grant {
	<-ctx.Done()
	grants := make([]store.Grant, len(claims))
	for i := range grants {
		grants[i].Err = ctx.Err()
	}
	return grants
}

// waitFor lets d go by.
func waitFor(d time.Duration) { <-time.After(d) }

// aToken is a time in which the store's clock reaches one more fencing token,
// even if it is slow.
const aToken = 2 * time.Microsecond

// named is the request that one may be given of, for a name unless it has one.
func named(name string, one []renewer.Request) renewer.Request {
	r := append(one, renewer.Request{})[0]
	r.Name = cmp.Or(r.Name, name)
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

// waits acquires "a" in the background, and frees what it gets at once.
func waits(ctx context.Context, k *renewer.Keeper, more ...renewer.Request) <-chan error {
	done := background(func() error {
		l, err := k.Acquire(ctx, named("a", more))
		if err != nil {
			return err
		}
		return l.Release(context.Background())
	})
	synctest.Wait()
	return done
}
