package httpmw_test

import (
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

// A lock on a route without its wildcard, or under a router that says nothing of
// routes, is a 500 for every request: the developer is told why, once, where the server's
// trouble is told. Neither that nor the answer has anything of the request in it.
func TestAWildcardThatIsNotThereIsToldOf(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]httpmw.Option{
		"name":   nil,
		"client": {httpmw.MaxWaitersPerClient(1, byPath)},
	} {
		k, o := observed(t)
		key := byPath
		if options != nil {
			key = byName("a")
		}
		h := httpmw.Exclusive(k, key, options...)(never(t))
		mux := http.NewServeMux()
		mux.Handle("/accounts/{nr}", h)
		for range 2 {
			p := requireProblem(t, do(mux, get(t, "/accounts/"+secret)),
				http.StatusInternalServerError, "about:blank")
			assert.Contains(t, p.Detail, "is told what is wrong")
			requireProblem(t, do(h, get(t, "/accounts/"+secret)),
				http.StatusInternalServerError, "about:blank")
		}
		errs := o.errs(t)
		require.Len(t, errs, 1, "once")
		assert.Contains(t, errs[0], `the route "/accounts/{nr}" has no wildcard {id}`, name)
		assert.NotContains(t, errs[0], secret)
	}
	// without an observer it is told to no one
	k, _ := scripted(t)
	requireProblem(t, do(httpmw.Exclusive(k, byPath)(never(t)), get(t, "/")),
		http.StatusInternalServerError, "about:blank")
}
