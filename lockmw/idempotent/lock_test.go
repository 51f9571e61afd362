package idempotent_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// customer is the lock of the customer that pays.
const customer = "customer:" + secret

// A request that did not get its lock is answered as by httpmw.Middleware, or
// as an invalid lock says, and its handler runs under the lock that it gets.
func TestTheLockOfARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock   lockmw.Set
		down   bool
		status int
		typ    string
		again  bool // with a Retry-After
	}{
		"held": {
			lockmw.All(customer), false, http.StatusServiceUnavailable, httpguard.TypeBusy, true,
		},
		"the store is down": {
			lockmw.All(customer), true, http.StatusServiceUnavailable, httpguard.TypeUnavailable, true,
		},
		"a full limit": {
			lockmw.Limit(secret, 0), false, http.StatusTooManyRequests, httpguard.TypeLimit, true,
		},
		"invalid": {
			lockmw.Invalid(&httpmw.Error{Status: http.StatusForbidden}), false, http.StatusForbidden,
			"about:blank", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				lock := c.lock
				h := idempotent.Middleware(k, idempotent.Config{
					Caller: byUser, Lock: func(*http.Request) lockmw.Set { return lock },
				})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					assert.True(t, lockmw.Held(r.Context(), customer))
					ok(w, r)
				}))
				release := func() { s.Default(script.Acquire, script.Pass()) }
				if c.down {
					s.Script(script.Acquire, script.Pass())
					s.Default(script.Acquire, script.Fail(errDown))
				} else {
					release = hold(t, k, customer)
				}
				a := do(h, order(t.Context(), "k", "pen"))
				requireProblem(t, a, c.status, c.typ)
				assert.Equal(t, c.again, a.Header.Get("Retry-After") != "")
				release()
				lock = lockmw.All(customer)
				assert.Equal(t, http.StatusOK, answered(h, order(t.Context(), "k", "paper")).Code)
			})
		})
	}
}
