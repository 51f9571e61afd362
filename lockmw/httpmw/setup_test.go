package httpmw_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// faultLog is an observer that keeps what it is told of trouble.
type faultLog struct {
	renewer.NopObserver

	mu     sync.Mutex
	faults []renewer.Fault
}

func (o *faultLog) Fault(f renewer.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, f)
}

// errs are the texts of the faults, in order.
func (o *faultLog) errs(t *testing.T) (texts []string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.faults {
		require.ErrorIs(t, f.Err, renewer.ErrConfig)
		assert.Empty(t, f.Name)
		assert.Equal(t, "serve HTTP", f.Doing)
		texts = append(texts, f.Err.Error())
	}
	return texts
}

func observed(t *testing.T) (*renewer.Keeper, *faultLog) {
	o := new(faultLog)
	k, _ := scripted(t, func(c *renewer.Config) { c.Observer = o })
	return k, o
}

// A server that gives up writing before a request can have had its turn runs handlers for clients
// that see the connection end, and come again. It is told of when the first request is there, and
// once for each handler.
func TestAWriteTimeoutBelowTheWaitIsToldOf(t *testing.T) {
	t.Parallel()
	nothingToDo := func(http.ResponseWriter, *http.Request, transfer) {}
	for name, c := range map[string]struct {
		timeout time.Duration
		guard   func(k *renewer.Keeper) http.Handler
		want    []string // what the one fault says; nil: there is none
	}{
		"below the default wait": {5 * time.Second, func(k *renewer.Keeper) http.Handler {
			return httpmw.Exclusive(k, byName("a"))(http.HandlerFunc(ok))
		}, []string{"WriteTimeout (5s)", "10s", `"/{path...}"`}},
		"the same": {time.Minute, func(k *renewer.Keeper) http.Handler {
			return httpmw.Exclusive(k, byName("a"), httpmw.Wait(time.Minute))(http.HandlerFunc(ok))
		}, []string{"WriteTimeout (1m0s)", "(1m0s"}},
		"a typed handler": {5 * time.Second, func(k *renewer.Keeper) http.Handler {
			return httpmw.Handle(k, byAccount, nothingToDo)
		}, []string{"WriteTimeout (5s)"}},
		"above": {11 * time.Second, func(k *renewer.Keeper) http.Handler {
			return httpmw.Exclusive(k, byName("a"))(http.HandlerFunc(ok))
		}, nil},
		"none": {0, func(k *renewer.Keeper) http.Handler {
			return httpmw.Exclusive(k, byName("a"))(http.HandlerFunc(ok))
		}, nil},
		"no wait": {5 * time.Second, func(k *renewer.Keeper) http.Handler {
			return httpmw.Exclusive(k, byName("a"), httpmw.Refuse(409))(http.HandlerFunc(ok))
		}, nil},
		"skipped": {5 * time.Second, func(k *renewer.Keeper) http.Handler {
			return httpmw.Exclusive(k, byName("a"), httpmw.Skip())(http.HandlerFunc(ok))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, o := observed(t)
			mux := http.NewServeMux()
			mux.Handle("/{path...}", c.guard(k))
			s := serve(t, mux, func(s *httptest.Server) { s.Config.WriteTimeout = c.timeout })
			for range 2 {
				send(t, s, http.MethodPost, "/secret", strings.NewReader(`{"Account":"7"}`))
			}
			errs := o.errs(t)
			if c.want == nil {
				assert.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			assert.NotContains(t, errs[0], "secret")
			for _, w := range c.want {
				assert.Contains(t, errs[0], w)
			}
		})
	}
}

// Each handler is told of, also if several have been made by one middleware.
func TestEachHandlersWriteTimeoutIsToldOf(t *testing.T) {
	t.Parallel()
	k, o := observed(t)
	lock := httpmw.Exclusive(k, byName("a"))
	mux := http.NewServeMux()
	mux.Handle("/a", lock(http.HandlerFunc(ok)))
	mux.Handle("/b", lock(http.HandlerFunc(ok)))
	s := serve(t, mux, func(s *httptest.Server) { s.Config.WriteTimeout = 5 * time.Second })
	for _, path := range []string{"/a", "/b", "/a", "/b"} {
		send(t, s, http.MethodGet, path, http.NoBody)
	}
	assert.Len(t, o.errs(t), 2)
}

// A lock on a route without its wildcard, or under a router that says nothing of
// routes, is a 500 for every request: the developer is told why, where the server's
// trouble is told, and in the answer. Neither has anything of the request in it.
func TestAWildcardThatIsNotThereIsToldOf(t *testing.T) {
	t.Parallel()
	onMux := func(pattern string) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle(pattern, h)
			return mux
		}
	}
	for name, c := range map[string]struct {
		route func(http.Handler) http.Handler
		want  string
	}{
		"no such wildcard": {
			onMux("/accounts/{nr}"),
			`the route "/accounts/{nr}" has no wildcard {id}`,
		},
		"around the mux": {func(h http.Handler) http.Handler {
			return h
		}, "the router has told of no route"},
		"a router of its own": {func(h http.Handler) http.Handler {
			return http.StripPrefix("/accounts", h)
		}, "the router has told of no route"},
	} {
		for guard, build := range map[string]func(k *renewer.Keeper) http.Handler{
			"Exclusive": func(k *renewer.Keeper) http.Handler {
				return httpmw.Exclusive(k, httpmw.PathValue("id"))(never(t))
			},
			"MaxWaitersPerClient": func(k *renewer.Keeper) http.Handler {
				return httpmw.Exclusive(k, byName("a"), httpmw.MaxWaitersPerClient(1,
					httpmw.PathValue("id")))(never(t))
			},
		} {
			t.Run(name+", "+guard, func(t *testing.T) {
				t.Parallel()
				k, o := observed(t)
				h := c.route(build(k))
				for range 2 {
					r := get(t, "/accounts/"+secret)
					p := requireProblem(t, do(h, r), http.StatusInternalServerError, "about:blank")
					assert.Contains(t, p.Detail, "httpmw.PathValue")
					assert.NotContains(t, p.Detail, "{")
				}
				errs := o.errs(t)
				require.Len(t, errs, 1, "once")
				assert.Contains(t, errs[0], c.want)
				assert.NotContains(t, errs[0], secret)
			})
		}
	}
}

// A keeper without an observer is told nothing, and an observer that logs says it in the log.
func TestWhereTroubleIsTold(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	p := requireProblem(t, do(httpmw.Exclusive(k, httpmw.PathValue("id"))(never(t)), get(t, "/")),
		http.StatusInternalServerError, "about:blank")
	assert.NotEmpty(t, p.Detail)
	var log strings.Builder
	k, _ = scripted(t, func(c *renewer.Config) {
		c.Observer = renewer.NewLogObserver(slog.New(slog.NewTextHandler(&log, nil)))
	})
	do(httpmw.Exclusive(k, httpmw.PathValue("id"))(never(t)), get(t, "/"))
	assert.Contains(t, log.String(), "httpmw.PathValue")
}
