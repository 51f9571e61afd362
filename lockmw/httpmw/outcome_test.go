package httpmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var errDown = errors.New("connection refused")

// requireRetryAfter requires the header to be within bounds, in seconds.
func requireRetryAfter(t *testing.T, a answer, least, most int) {
	t.Helper()
	s, err := strconv.Atoi(a.Header.Get("Retry-After"))
	require.NoError(t, err, "Retry-After: %q", a.Header.Get("Retry-After"))
	assert.GreaterOrEqual(t, s, least)
	assert.LessOrEqual(t, s, most)
}

// What is answered when the lock is not to be had, and when.
func TestRefusals(t *testing.T) {
	t.Parallel()
	busy := func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
		s.Default(script.Acquire, script.Taken(store.Holder{}, time.Minute))
	}
	down := func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
		s.Default(script.Acquire, script.Fail(errDown))
	}
	shut := func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		require.NoError(t, k.Shutdown(t.Context()))
	}
	type options = []httpmw.Option
	refuse, failOpen := lockmw.Refuse(), lockmw.LocalShare(1)
	short := lockmw.Wait(3 * time.Second)
	long, ours := secret+repeat("x", store.MaxName), "\x00lockbeat quorum"
	for name, c := range map[string]struct {
		opts        options
		set         func(t *testing.T, s *script.Store, k *renewer.Keeper)
		badName     *string
		status      int
		typ         string
		least, most int // Retry-After; 0: none
		after       time.Duration
	}{
		"wait ran out": {nil, busy, nil, 503, httpguard.TypeBusy, 1, 8, lockmw.DefaultWait},
		"short wait":   {options{short}, busy, nil, 503, httpguard.TypeBusy, 1, 3, 3 * time.Second},
		"conflict":     {options{refuse}, busy, nil, 409, httpguard.TypeBusy, 1, 2, 0},
		"the later one": {
			options{refuse, lockmw.Skip(), short},
			busy, nil, 503, httpguard.TypeBusy, 1, 3,
			3 * time.Second,
		},
		"down":           {options{refuse}, down, nil, 503, httpguard.TypeUnavailable, 3, 8, 0},
		"down for long":  {nil, down, nil, 503, httpguard.TypeUnavailable, 3, 8, 5 * time.Second},
		"busy, and open": {options{failOpen, refuse}, busy, nil, 409, httpguard.TypeBusy, 1, 2, 0},
		"shut down":      {options{failOpen}, shut, nil, 503, httpguard.TypeUnavailable, 1, 2, 0},
		"no name":        {options{failOpen}, nil, new(string), 400, httpguard.TypeBadRequest, 0, 0, 0},
		"long name":      {nil, nil, &long, 400, httpguard.TypeBadRequest, 0, 0, 0},
		"our name":       {nil, nil, &ours, 400, httpguard.TypeBadRequest, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				if c.set != nil {
					c.set(t, s, k)
				}
				name := secret
				if c.badName != nil {
					name = *c.badName
				}
				h := httpmw.Middleware(k, byName(name), c.opts...)(never(t))
				begun := time.Now()
				a := do(h, get(t, "/"))
				assert.InDelta(t, c.after, time.Since(begun), float64(time.Millisecond))
				p := requireProblem(t, a, c.status, c.typ)
				assert.NotEmpty(t, p.Detail)
				if c.most == 0 {
					assert.Empty(t, a.Header.Get("Retry-After"))
				} else {
					requireRetryAfter(t, a, c.least, c.most)
				}
				if c.badName != nil {
					assert.False(t, asked(s))
				}
				if c.typ == httpguard.TypeUnavailable {
					assert.NotContains(t, a.Text, "usy", "the holder is not known")
				}
			})
		})
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	s.Script(script.Acquire, script.Taken(store.Holder{}, 0))
	h := httpmw.Middleware(k, byName(secret), lockmw.Skip())(http.HandlerFunc(ok))
	a := do(h, get(t, "/"))
	assert.Equal(t, http.StatusNoContent, a.StatusCode)
	assert.Empty(t, a.Text)
	assert.Empty(t, a.Header.Get("Content-Type"))
	assert.Equal(t, "done", do(h, get(t, "/")).Text, "the next one")
}

// The time is the request's own: a client is there and hears of it, while there
// is time left.
func TestDeadlineOfTheRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		release := hold(t, k, secret)
		h := httpmw.Middleware(k, byName(secret))(never(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		a := do(h, get(t, "/").WithContext(ctx))
		requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeBusy)
		requireRetryAfter(t, a, 1, 2)
		assert.Equal(t, 750*time.Millisecond, time.Since(begun))

		begun = time.Now()
		a = do(http.TimeoutHandler(h, time.Second, "late"), get(t, "/"))
		requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeBusy)
		assert.Equal(t, 750*time.Millisecond, time.Since(begun))
		release()

		s.Default(script.Acquire, script.Hang())
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		a = do(h, get(t, "/").WithContext(ctx))
		requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeUnavailable)
		assert.Equal(t, 750*time.Millisecond, time.Since(begun))

		late, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, ctx := range []context.Context{late, gone} {
			a = do(h, get(t, "/").WithContext(ctx))
			requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeTimeout)
			requireRetryAfter(t, a, 1, 2)
		}
	})
}

// Why a request has ended is told, and who ended it is not mistaken for a
// client that has gone. That one was a panic, which gin.Recovery logged, and of
// which others made a 500.
func TestEndOfTheRequestWhileItIsRead(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	late, cancel := context.WithDeadlineCause(t.Context(), time.Now(), errDown)
	defer cancel()
	lost, lose := context.WithCancelCause(t.Context())
	lose(&renewer.LostError{})
	plain, done := context.WithDeadline(t.Context(), time.Now())
	defer done()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct {
		ctx  context.Context
		typ  string
		want string
	}{
		{
			late, httpguard.TypeTimeout,
			"the request has ended: context deadline exceeded: connection refused",
		},
		{plain, httpguard.TypeTimeout, "the request has ended: context deadline exceeded"},
		{gone, httpguard.TypeTimeout, "the request has ended: context canceled"},
		{lost, httpguard.TypeLost, "the request has ended: context canceled: lockbeat: lease on"},
	} {
		told := httpmw.OnRefused(func(w http.ResponseWriter, r *http.Request, err error) {
			assert.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), "exceeded: context")
			httpmw.Respond(w, r, err)
		})
		for _, h := range []http.Handler{
			httpmw.Middleware(k, byHeader, told)(never(t)),
			httpmw.Wrap(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {}, told),
		} {
			requireProblem(t, do(h, post(t, "{").WithContext(c.ctx)),
				http.StatusServiceUnavailable, c.typ)
		}
	}
	assert.False(t, asked(s))
}

func TestHeadGetsHeadersOnly(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	s.Default(script.Acquire, script.Taken(store.Holder{}, time.Minute))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", http.NoBody)
	a := do(httpmw.Middleware(k, byName(secret), lockmw.Refuse())(never(t)), r)
	assert.Equal(t, http.StatusConflict, a.StatusCode)
	assert.Empty(t, a.Text)
	assert.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	requireRetryAfter(t, a, 1, 2)
}

func TestKeyFunctions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		typ    string
	}{
		"fails":              {errors.New(secret), 400, httpguard.TypeBadRequest},
		"fails by a context": {context.Canceled, 400, httpguard.TypeBadRequest},
		"fails by a lock":    {renewer.ErrBusy, 400, httpguard.TypeBadRequest},
		"reads too much":     {&http.MaxBytesError{}, 413, httpguard.TypeBadRequest},
		"says the answer":    {&httpmw.Error{Status: 404, Err: errors.New(secret)}, 404, "about:blank"},
		"says a lock's":      {&httpmw.Error{Status: 423, Err: renewer.ErrBusy}, 423, httpguard.TypeBusy},
		"says one for none":  {&httpmw.Error{Status: 418}, 418, "about:blank"},
	} {
		k, s := scripted(t)
		h := httpmw.Middleware(k, func(*http.Request) lockmw.Set { return lockmw.Invalid(c.err) })(never(t))
		a := do(h, get(t, "/"))
		requireProblem(t, a, c.status, c.typ)
		assert.Empty(t, a.Header.Get("Retry-After"), name)
		assert.False(t, asked(s), name)
	}
}
