package httpmw_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// A key function with a typing error had all requests answered with one 400,
// whatever was wrong, and no log said so.
func TestNamesThatNoLockCanHave(t *testing.T) {
	t.Parallel()
	long := secret + strings.Repeat("x", 600)
	by := func(name string) func(transfer) string { return func(transfer) string { return name } }
	run := func(http.ResponseWriter, *http.Request, transfer) { assert.Fail(t, "it ran") }
	for name, c := range map[string]struct {
		guard  func(k *renewer.Keeper) http.Handler
		detail string
		told   bool
	}{
		"a wildcard of another name": {func(k *renewer.Keeper) http.Handler {
			return httpmw.Middleware(k, func(r *http.Request) string { return lockmw.Key("customer", r.PathValue("ID")) })(never(t))
		}, "the name for it is empty", true},
		"too long": {func(k *renewer.Keeper) http.Handler {
			return httpmw.Middleware(k, byName(long))(never(t))
		}, "too long a name", true},
		"one of several": {func(k *renewer.Keeper) http.Handler {
			return httpmw.Middleware(k, byName(lockmw.All("a", long)))(never(t))
		}, "too long a name", true},
		"a limit": {func(k *renewer.Keeper) http.Handler {
			return httpmw.Middleware(k, byName(lockmw.Limit(long, 3)))(never(t))
		}, "too long a name", true},
		"in the body, too long": {func(k *renewer.Keeper) http.Handler {
			return httpmw.Wrap(k, by(long), run)
		}, "too long a name", true},
		"too many": {func(k *renewer.Keeper) http.Handler {
			twice := lockmw.All(lockmw.Limit("a", 1), lockmw.Limit("a", 1))
			return httpmw.Middleware(k, byName(twice))(never(t))
		}, "not in a usable form", false},
		"a client of no name": {func(k *renewer.Keeper) http.Handler {
			return httpmw.Middleware(k, byName("a"), httpmw.MaxWaitersPerClient(1, nobody))(never(t))
		}, "who sends it", true},
	} {
		k, o := observed(t)
		mux := http.NewServeMux()
		mux.Handle("POST /customers/{id}", c.guard(k))
		for range 3 {
			r := post(t, "{}")
			r.URL.Path = "/customers/7"
			p := requireProblem(t, do(mux, r), http.StatusBadRequest, httpguard.TypeBadRequest)
			assert.Contains(t, p.Detail, c.detail, name)
		}
		if !c.told {
			assert.Empty(t, o.All(), name)
			continue
		}
		require.Len(t, o.All(), 1, name)
		assert.Contains(t, o.All()[0].Err.Error(), `"POST /customers/{id}"`, name)
		assert.NotContains(t, o.All()[0].Err.Error(), secret, name)
	}
}

// A wildcard that the route does not have is the server's fault, in whichever
// function it is, and under a router that says nothing of routes: the developer
// is told why, once. Neither that nor the answer has anything of the request.
func TestWildcardsThatTheRouteDoesNotHave(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*http.Request) lockmw.Set{
		"PathValue":                 httpmw.PathValue("customer", "ID"),
		"PathInt":                   httpmw.PathInt("customer", "ID"),
		"PathUUID":                  httpmw.PathUUID("customer", "nr"),
		"the beginning of its name": httpmw.PathValue("customer", "i"),
	} {
		k, o := observed(t)
		mux, h := http.NewServeMux(), httpmw.Middleware(k, key)(never(t))
		mux.Handle("/customers/{id}", h)
		for range 3 {
			p := requireProblem(t, do(mux, get(t, "/customers/"+secret)),
				http.StatusInternalServerError, "about:blank")
			assert.Contains(t, p.Detail, "is told what is wrong", name)
		}
		requireProblem(t, do(h, get(t, "/"+secret)), http.StatusInternalServerError, "about:blank")
		texts := o.SetUp(t)
		require.Len(t, texts, 1, name)
		assert.Contains(t, texts[0], `the route "/customers/{id}" has no wildcard {`, name)
		assert.NotContains(t, texts[0], secret)
	}
}
