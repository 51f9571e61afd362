package httpmw_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// limited runs f in a bubble with a keeper whose store has limits.
func limited(t *testing.T, f func(t *testing.T, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, webtest.Keeper(t, memory.New())) })
}

// fill has another caller hold a name until free is called.
func fill(t *testing.T, k *renewer.Keeper, name lockmw.Set) (free func()) {
	t.Helper()
	_, exit, err := adapter.Enter(t.Context(), k, name, lockmw.Refuse())
	require.NoError(t, err)
	return func() { require.NoError(t, exit(nil)) }
}

// What is answered when a limit is full: how many it lets run, and not what it
// is called.
func TestFullLimits(t *testing.T) {
	t.Parallel()
	type options = []httpmw.Option
	two, refuse := lockmw.Limit(secret, 2), lockmw.Refuse()
	const full = "at its limit of 2 at once"
	for name, c := range map[string]struct {
		name   lockmw.Set
		opts   options
		status int
		typ    string
		detail string
		after  time.Duration
	}{
		"wait ran out": {two, nil, 429, httpguard.TypeLimit, full, lockmw.DefaultWait},
		"one of several": {
			lockmw.All(lockmw.Limit("all", 20), two),
			options{refuse},
			429, httpguard.TypeLimit, full, 0,
		},
		"closed": {
			lockmw.Limit(secret, 0), nil, 429, httpguard.TypeLimit, "closed", 0,
		},
		"a lock beside it": {
			lockmw.Limit(secret, 9).And(lockmw.All("lock")),
			nil, 503, httpguard.TypeBusy, "the lock", lockmw.DefaultWait,
		},
		"no number": {lockmw.Limit(secret, -1), nil, 500, "about:blank", "set up wrongly", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limited(t, func(t *testing.T, k *renewer.Keeper) {
				for _, held := range []lockmw.Set{two, two, lockmw.All("lock")} {
					defer fill(t, k, held)()
				}
				h := httpmw.Middleware(k, byName(c.name), c.opts...)(never(t))
				begun := time.Now()
				a := do(h, get(t, "/"))
				assert.InDelta(t, c.after, time.Since(begun), float64(time.Millisecond))
				p := requireProblem(t, a, c.status, c.typ)
				assert.Contains(t, p.Detail, c.detail)
				switch {
				case c.status == 500:
					assert.Empty(t, a.Header.Get("Retry-After"))
				case c.detail == "closed":
					requireRetryAfter(t, a, 3, 8)
				default:
					requireRetryAfter(t, a, 1, 8)
				}
			})
		})
	}
}
