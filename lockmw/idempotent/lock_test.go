package idempotent_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// customer is the lock of the customer that pays.
const customer = "customer:" + secret

// paying returns a handler that charges in a transaction, under the customer's
// lock.
func paying(t *testing.T, k *renewer.Keeper, l *ledger) http.Handler {
	t.Helper()
	return idempotent.Middleware(k, idempotent.Config{
		Caller: byUser, Recorder: l, Lock: byName(lockmw.All(customer)),
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.True(t, lockmw.Held(r.Context(), customer))
		charging(w, r)
	}))
}

// Requests waited for a lock further in with their transactions open, so that
// its holder got no connection of the same pool. And the lock was free before
// they were committed.
func TestTheLockIsHadBeforeTheTransactionBeginsAndKeptUntilItHasEnded(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		h, release := paying(t, k, l), hold(t, k, customer)
		l.commit = func() { assert.NotEmpty(t, s.Owner(customer)) }
		done := make(chan struct{})
		go func() {
			defer close(done)
			w := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, http.StatusCreated, w.Code)
		}()
		waitFor(3 * time.Second)
		assert.Zero(t, l.begun, "a transaction is open while its request waits")
		busy := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusConflict, busy.Code, "in flight")
		release()
		<-done
		assert.Equal(t, []string{"pen"}, l.charges)
		assert.Empty(t, s.Owner(customer))

		release = hold(t, k, customer)
		defer release()
		begun := time.Now()
		again := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusCreated, again.Code)
		assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		assert.Zero(t, time.Since(begun), "a stored answer needs no lock")
	})
}

// A request that did not get the lock is answered as by httpmw.Middleware, and
// is as new when it is sent again, even if it is another one then.
func TestARefusedLockLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, s *script.Store, k *renewer.Keeper) (mend func())
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		status  int
		typ     string
		took    time.Duration
	}{
		"held": {
			func(t *testing.T, _ *script.Store, k *renewer.Keeper) func() {
				t.Helper()
				return hold(t, k, customer)
			}, nil, http.StatusServiceUnavailable, httpguard.TypeBusy, lockmw.DefaultWait,
		},
		"held, and a deadline is near": {
			func(t *testing.T, _ *script.Store, k *renewer.Keeper) func() {
				t.Helper()
				return hold(t, k, customer)
			}, func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 4*time.Second)
			}, http.StatusServiceUnavailable, httpguard.TypeBusy, 3 * time.Second,
		},
		"the store is down": {
			func(_ *testing.T, s *script.Store, _ *renewer.Keeper) func() {
				s.Script(script.Acquire, script.Pass())
				s.Default(script.Acquire, script.Fail(errDown))
				return func() { s.Default(script.Acquire, script.Pass()) }
			}, nil, http.StatusServiceUnavailable, httpguard.TypeUnavailable, lockmw.DefaultWait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
				h, mend := paying(t, k, l), c.prepare(t, s, k)
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if c.ctx != nil {
					ctx, cancel = c.ctx(ctx)
				}
				defer cancel()
				begun := time.Now()
				a := do(h, order(ctx, "k", "pen"))
				requireProblem(t, a, c.status, c.typ)
				assert.NotEmpty(t, a.Header.Get("Retry-After"))
				assert.InDelta(t, c.took, time.Since(begun), float64(time.Second))
				assert.Zero(t, l.begun)
				mend()
				w := answered(h, order(t.Context(), "k", "paper"))
				assert.Equal(t, http.StatusCreated, w.Code)
				assert.Len(t, l.charges, 1)
			})
		})
	}
}

func TestAFullLimitIs429(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, memory.New())
	h := idempotent.Middleware(k, idempotent.Config{
		Caller: byUser, Lock: byName(lockmw.Limit(secret, 0)),
	})(http.HandlerFunc(ok))
	requireProblem(t, do(h, order(t.Context(), "k", "pen")), http.StatusTooManyRequests,
		httpguard.TypeLimit)
}

// A lock that is invalid may say how the request is answered.
func TestAnInvalidLockDecidesTheStatus(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	h := idempotent.Middleware(k, idempotent.Config{
		Caller: byUser, Lock: byName(
			lockmw.Invalid(&httpmw.Error{Status: http.StatusForbidden, Title: "Not your account"})),
	})(http.HandlerFunc(ok))
	p := requireProblem(t, do(h, order(t.Context(), "k", "pen")), http.StatusForbidden, "about:blank")
	assert.Equal(t, "Not your account", p.Title)
	assert.Empty(t, names(s))
}

// A client that leaves while its request waits has nothing done.
func TestAClientThatLeavesWhileItsRequestWaitsForTheLock(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
		h, release := paying(t, k, l), hold(t, k, customer)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			w := answered(h, order(ctx, "k", "pen"))
			assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		}()
		synctest.Wait()
		leave()
		<-gone
		release()
		assert.Zero(t, l.begun)
		assert.Equal(t, http.StatusCreated, answered(h, order(t.Context(), "k", "paper")).Code)
	})
}
