package idempotent_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// What is answered in place of the handler's answer, and by which responder.
func TestRefusals(t *testing.T) {
	t.Parallel()
	key := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Idempotency-Key"] = values }
	}
	same := func(*http.Request) {}
	for name, c := range map[string]struct {
		request func(*http.Request)
		before  func(t *testing.T, s *script.Store, k *renewer.Keeper)
		status  int
		typ     string
		detail  string
		again   bool // with a Retry-After
	}{
		"in flight": {
			request: same, status: http.StatusConflict, typ: httpguard.TypeBusy,
			detail: "Another request holds the lock on this resource.", again: true,
		},
		"another request's key": {
			request: func(r *http.Request) { r.URL.RawQuery, r.RequestURI = "a=b", "/orders?a=b" },
			status:  http.StatusUnprocessableEntity, typ: httpguard.TypeReused,
			detail: "The Idempotency-Key is that of another request",
		},
		"no key": {
			request: key(), status: http.StatusBadRequest,
			typ: httpguard.TypeBadRequest, detail: "The request needs one header Idempotency-Key",
		},
		"two keys": {
			request: key("a", "b"), status: http.StatusBadRequest,
			typ: httpguard.TypeBadRequest, detail: "The request needs one header Idempotency-Key",
		},
		"no caller": {
			request: func(r *http.Request) { r.Header.Del("User") },
			status:  http.StatusBadRequest, typ: httpguard.TypeBadRequest,
			detail: "The request does not say who sends it",
		},
		"a large body": {
			request: func(r *http.Request) { r.ContentLength = 2 << 20 },
			status:  http.StatusRequestEntityTooLarge, typ: httpguard.TypeBadRequest,
			detail: "The body of the request is too large.",
		},
		"the store is down": {
			request: key("new"), status: http.StatusServiceUnavailable,
			before: func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
				s.Default(script.Acquire, script.Fail(errDown))
			},
			typ: httpguard.TypeUnavailable, detail: "could not be asked for.", again: true,
		},
		"the keeper is shut down": {
			request: key("new"), status: http.StatusServiceUnavailable,
			before: func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				over, cancel := context.WithCancel(t.Context())
				cancel()
				_ = k.Shutdown(over)
			},
			typ: httpguard.TypeUnavailable, detail: "This server is shutting down.", again: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				finish := make(chan struct{})
				guard := idempotent.Middleware(k, idempotent.Config{
					Caller: byUser, Operation: "order",
					OnRefused: func(w http.ResponseWriter, r *http.Request, err error) {
						e, ok := errors.AsType[*httpmw.Error](err)
						require.True(t, ok)
						assert.Equal(t, c.status, e.Status)
						httpmw.Respond(w, r, err)
					},
				})
				h := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-finish
					ok(w, r)
				}))
				var first sync.WaitGroup
				first.Go(func() { answered(h, order(context.Background(), "k", "pen")) })
				synctest.Wait()
				assert.Equal(t, "order", s.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
				if c.before != nil {
					c.before(t, s, k)
				}
				r := order(t.Context(), "k", "pen")
				c.request(r)
				a := do(h, r)
				p := requireProblem(t, a, c.status, c.typ)
				assert.Contains(t, p.Detail, c.detail)
				assert.Equal(t, c.again, a.Header.Get("Retry-After") != "")
				close(finish)
				first.Wait()
			})
		})
	}
}
