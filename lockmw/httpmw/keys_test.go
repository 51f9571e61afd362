package httpmw_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	value "github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lock on a route knows the route's name and its wildcards.
func TestMiddlewareOnARoute(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer", httpmw.Middleware(k, byPath)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.True(t, lockmw.Held(r.Context(), "account:7"))
			assert.Positive(t, lockmw.Fence(r.Context()))
			assert.Equal(t, "7", r.PathValue("id"))
			ok(w, r)
		})))
	a := send(t, serve(t, mux), http.MethodPost, "/accounts/7/transfer", http.NoBody)
	assert.Equal(t, http.StatusOK, a.StatusCode)
	assert.Equal(t, "done", a.Text)
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 1)
	assert.Equal(t, "account:7", calls[0].Claims[0].Name)
	assert.Equal(t, "POST /accounts/{id}/transfer", calls[0].Claims[0].Holder.Operation)
	assert.Len(t, store.Calls(script.Release), 1)
	assert.Empty(t, store.Owner("account:7"))
}

var byPath = httpmw.PathValue("account", "id")

// One account, one lock, however a client writes it. An empty name: the request
// is refused.
func TestNamesFromThePath(t *testing.T) {
	t.Parallel()
	byInt, byUUID := httpmw.PathInt("account", "id"), httpmw.PathUUID("order", "id")
	const order = "order:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for _, c := range []struct {
		key        func(*http.Request) lockmw.Set
		path, want string
	}{
		{byPath, "/7", "account:7"},
		{byPath, "/%37", "account:7"},
		{byPath, "/%2537", "account:7"}, // as chi hands over what was sent
		{byPath, "/07", "account:07"},
		{byPath, "/7%2F8", "account:7/8"},
		{byPath, "/100%25", "account:100%25"},
		{byPath, "/7:8", "account:7%3A8"},
		{byPath, "/" + repeat("7", 10<<10), ""},
		{byInt, "/7", "account:7"},
		{byInt, "/07", "account:7"},
		{byInt, "/+7", "account:7"},
		{byInt, "/%37", "account:7"},
		{byInt, "/-7", "account:-7"},
		{byInt, "/18446744073709551615", "account:18446744073709551615"},
		{byInt, "/%207", ""},
		{byInt, "/seven", ""},
		{byInt, "/7.0", ""},
		{byInt, "/99999999999999999999", ""},
		{byUUID, "/6BA7B810-9DAD-11D1-80B4-00C04FD430C8", order},
		{byUUID, "/%7B6ba7b810-9dad-11d1-80b4-00c04fd430c8%7D", order},
		{byUUID, "/6ba7b8109dad11d180b400c04fd430c8", order},
		{byUUID, "/urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8", order},
		{byUUID, "/7", ""},
	} {
		k, store := scripted(t)
		mux := http.NewServeMux()
		mux.Handle("/{id}", httpmw.Middleware(k, c.key)(http.HandlerFunc(ok)))
		a := do(mux, get(t, c.path))
		if c.want == "" {
			requireProblem(t, a, http.StatusBadRequest, httpguard.TypeBadRequest)
			assert.False(t, asked(store), c.path)
			continue
		}
		assert.Equal(t, "done", a.Text)
		assert.Equal(t, []string{c.want}, names(store), c.path)
	}
}

func TestPathsWithoutAValue(t *testing.T) {
	t.Parallel()
	r := get(t, "/")
	r.Pattern = "GET /accounts/{id...}"
	err := value.Set(byPath(r)).Err()
	require.ErrorIs(t, err, httpmw.ErrKey)
	require.EqualError(t, err, "lockbeat: no key in the request: the path has no value for {id}")
	r.Pattern = "GET /accounts/{nr}"
	err = value.Set(byPath(r)).Err()
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, `the route "GET /accounts/{nr}" has no wildcard {id} for `+
		`httpmw.PathValue: put the lock on a route`)
}

// What an option or an argument can't mean is said when the program starts.
func TestMisuseAtConstruction(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	run := func(http.ResponseWriter, *http.Request, transfer) {}
	with := func(o httpmw.Option) func() { return func() { httpmw.Middleware(k, byPath, o) } }
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"Middleware needs a keeper", func() { httpmw.Middleware(nil, byPath) }},
		{"Middleware needs a keeper", func() { httpmw.Middleware[string](k, nil) }},
		{"Middleware needs a handler", func() { httpmw.Middleware(k, byPath)(nil) }},
		{"Wrap needs a keeper", func() { httpmw.Wrap(nil, byAccount, run) }},
		{"Wrap needs a keeper", func() { httpmw.Wrap[transfer, string](k, nil, run) }},
		{"Wrap needs a keeper", func() { httpmw.Wrap[transfer](k, byAccount, nil) }},
		{"StreamBody is for httpmw.Middleware", func() {
			httpmw.Wrap(k, byAccount, run, httpmw.StreamBody())
		}},
		{"WrapWith needs a function", func() { httpmw.WrapWith(k, nil, byAccount, run) }},
		{"ReceiveFence needs a handler", func() { httpmw.ReceiveFence(nil) }},
		{"PathValue needs the kind", func() { httpmw.PathValue("", "id") }},
		{"PathInt needs the kind", func() { httpmw.PathInt("account", "") }},
		{"Wait(NoBound) would keep", with(lockmw.Wait(lockmw.NoBound))},
		{"Wait(0s): give", with(lockmw.Wait(0))},
		{"MaxHold is 1s", with(lockmw.MaxHold(time.Second))}, // less than a heartbeat
		{"MaxWaitersPerClient(0): give", with(httpmw.MaxWaitersPerClient(0, byUser))},
		{"MaxWaitersPerClient(1): give", with(httpmw.MaxWaitersPerClient(1, nil))},
		{"MaxBody(0): give", with(httpmw.MaxBody(0))},
		{"OnRefused needs a responder", with(httpmw.OnRefused(nil))},
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				assert.Contains(t, text, "lockbeat: ")
				assert.Contains(t, text, c.want)
			}()
			c.f()
		}()
	}
}
