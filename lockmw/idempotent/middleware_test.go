package idempotent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func byUser(r *http.Request) (string, error) { return r.Header.Get("User"), nil }

// order is a request to order something.
func order(ctx context.Context, key, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders?now=1",
		strings.NewReader(body))
	r.Header.Set("User", "ann")
	if key != "" {
		r.Header.Set(idempotent.KeyHeader, key)
	}
	return r
}

func answered(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	w.Header().Set("X-Outer", "set before")
	h.ServeHTTP(w, r)
	return w
}

// shop counts the orders that it takes.
type shop struct{ taken atomic.Int64 }

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.taken.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Location", "/orders/7")
	w.Header().Set("Set-Cookie", "session=secret")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "order %d: %s", n, body)
}

func TestAnOrderIsTakenOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, byUser)(&shop)
		first := answered(h, order(t.Context(), "k-1", "pen"))
		assert.Equal(t, http.StatusCreated, first.Code)
		assert.Equal(t, "order 1: pen", first.Body.String())
		assert.Empty(t, first.Header().Get(idempotent.ReplayedHeader))
		assert.Equal(t, "session=secret", first.Header().Get("Set-Cookie"))
		for _, key := range []string{"k-1", `"k-1"`, ` "k-1" `} {
			again := answered(h, order(t.Context(), key, "pen"))
			assert.Equal(t, http.StatusCreated, again.Code)
			assert.Equal(t, "order 1: pen", again.Body.String())
			assert.Equal(t, "true", again.Header().Get(idempotent.ReplayedHeader))
			assert.Equal(t, "/orders/7", again.Header().Get("Location"))
			assert.Equal(t, first.Header().Get("Content-Type"), again.Header().Get("Content-Type"))
			assert.Equal(t, "12", again.Header().Get("Content-Length"))
			assert.Equal(t, "set before", again.Header().Get("X-Outer"))
			assert.Empty(t, again.Header().Get("Set-Cookie"), "of the first client's session")
		}
		other := order(t.Context(), "k-1", "pen")
		other.Header.Set("User", "bob")
		assert.Equal(t, "order 2: pen", answered(h, other).Body.String(),
			"another caller's key is another")
		assert.Equal(t, "order 3: pen", answered(h, order(t.Context(), "k-2", "pen")).Body.String())
		for _, name := range names(s) {
			assert.NotContains(t, name, "k-1", "keys are hashed")
			assert.NotContains(t, name, "ann")
		}
		waitFor(idempotent.DefaultKeepAnswer)
		assert.Equal(t, "order 4: pen", answered(h, order(t.Context(), "k-1", "pen")).Body.String(),
			"forgotten after a day")
	})
}

// The client is told what is compared, and the operator what differs.
func TestAKeyIsOneRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := new(faultLog)
		k, _ := scripted(t, func(c *renewer.Config) { c.Observer = o })
		var shop shop
		h := idempotent.Middleware(k, byUser, idempotent.Operation("order"))(&shop)
		answered(h, order(t.Context(), "k", "pen"))
		for name, c := range map[string]struct {
			edit    func(*http.Request)
			differs string
		}{
			"body": {
				func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("ink")) }, "body",
			},
			"method": {func(r *http.Request) { r.Method = http.MethodPut }, "method"},
			"path":   {func(r *http.Request) { r.RequestURI = "/other?now=1" }, "path"},
			"query":  {func(r *http.Request) { r.RequestURI = "/orders?now=2" }, "query"},
			"no URI": {func(r *http.Request) { r.RequestURI, r.URL.Path = "", "/other" }, "path"},
			"host":   {func(r *http.Request) { r.Host = "tenant-b.example" }, "host"},
			"port":   {func(r *http.Request) { r.Host += ":8080" }, "host"},
			"type": {
				func(r *http.Request) { r.Header.Set("Content-Type", "text/csv") }, "content type",
			},
			"two": {
				func(r *http.Request) { r.Method, r.RequestURI = http.MethodPut, "/" },
				"method, path, query",
			},
		} {
			r := order(t.Context(), "k", "pen")
			c.edit(r)
			w := answered(h, r)
			p := requireProblem(t, asReply(w), http.StatusUnprocessableEntity, httpmw.TypeReused)
			assert.Contains(t, p.Detail,
				"another method, host (with its port), path, query, content type or body")
			assert.NotContains(t, w.Body.String(), `"k"`)

			f := o.faults[len(o.faults)-1]
			assert.Equal(t, "compare requests with one key", f.Doing, name)
			assert.Contains(t, f.Err.Error(), `"order"`, name)
			assert.Contains(t, f.Err.Error(), "differs in: "+c.differs+":", name)
			assert.Contains(t, f.Name, "idempotency:", name)
		}
		assert.Len(t, o.faults, 9)
		r := order(t.Context(), "k", "pen")
		r.Host = strings.ToUpper(r.Host)
		assert.Equal(t, "true", answered(h, r).Header().Get(idempotent.ReplayedHeader),
			"case is nothing to a host")
		assert.EqualValues(t, 1, shop.taken.Load())
	})
}

// Two services on one Redis, with the same keys of users who have the same numbers: one answered
// with what the other had.
func TestServicesWithTheirOwnScopeDoNotMeet(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var books, pens shop
		for _, h := range []http.Handler{
			idempotent.Middleware(k, byUser)(&books),
			idempotent.Middleware(k, byUser, idempotent.Scope("pens"))(&pens),
		} {
			assert.Empty(t, answered(h,
				order(t.Context(), "k", "")).Header().Get(idempotent.ReplayedHeader))
			assert.Equal(t, "true",
				answered(h, order(t.Context(), "k", "")).Header().Get(idempotent.ReplayedHeader))
		}
		assert.EqualValues(t, 1, books.taken.Load())
		assert.EqualValues(t, 1, pens.taken.Load())

		// What one part of a name ends with is not what the next begins with.
		ab := idempotent.Middleware(k, byName("c"), idempotent.Scope("ab"))(&books)
		a := idempotent.Middleware(k, byName("bc"), idempotent.Scope("a"))(&books)
		assert.Empty(t, answered(ab,
			order(t.Context(), "k", "")).Header().Get(idempotent.ReplayedHeader))
		assert.Empty(t, answered(a,
			order(t.Context(), "k", "")).Header().Get(idempotent.ReplayedHeader))
	})
}

func TestRequestsWithoutAUsableKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, byUser, idempotent.MaxBody(10))(&shop)
		for _, key := range []string{
			"", " ", `""`, `"open`, `"a"b`, `"a\b"`, `"a\`, "a b", "ä",
			"a\x00b", strings.Repeat("k", 256),
		} {
			r := order(t.Context(), "x", "pen")
			r.Header[idempotent.KeyHeader] = []string{key}
			w := answered(h, r)
			assert.Equal(t, http.StatusBadRequest, w.Code, key)
			assert.Contains(t, w.Body.String(), "Idempotency-Key")
		}
		assert.Equal(t, http.StatusBadRequest, answered(h, order(t.Context(), "", "pen")).Code)
		two := order(t.Context(), "a", "pen")
		two.Header.Add(idempotent.KeyHeader, "b")
		assert.Equal(t, http.StatusBadRequest, answered(h, two).Code)
		nobody := order(t.Context(), "a", "pen")
		nobody.Header.Del("User")
		assert.Equal(t, http.StatusBadRequest, answered(h, nobody).Code)
		assert.Equal(t, http.StatusRequestEntityTooLarge,
			answered(h, order(t.Context(), "a", "a fountain pen")).Code)
		assert.Zero(t, shop.taken.Load())
		assert.Empty(t, names(s))

		assert.Equal(t, http.StatusCreated,
			answered(h, order(t.Context(), strings.Repeat("k", 255), "pen")).Code)
		optional := idempotent.Middleware(k, byUser, idempotent.KeyOptional())(&shop)
		assert.Equal(t, http.StatusCreated, answered(optional, order(t.Context(), "", "pen")).Code)
		assert.Equal(t, http.StatusCreated, answered(optional, order(t.Context(), "", "pen")).Code)
		assert.EqualValues(t, 3, shop.taken.Load())
		assert.Equal(t, http.StatusBadRequest,
			answered(optional,
				order(t.Context(), `"`, "pen")).Code, "a bad key is none that was left out")
	})
}

func TestIdempotentWithoutAStore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		var told error
		h := idempotent.Middleware(k, byUser,
			idempotent.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
				told = err
				httpmw.Respond(w, r, err)
			}))(&shop)
		s.Default(script.Acquire, script.Fail(errors.New("connection refused")))
		w := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Contains(t, w.Body.String(), "TypeUnavailable")
		require.ErrorIs(t, told, renewer.ErrUnavailable)
		assert.Zero(t, shop.taken.Load())
		s.Default(script.Acquire, script.Pass())
	})
}

func TestIdempotentRefusesWhatCantBeMeant(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	for name, f := range map[string]func(){
		"no keeper":     func() { idempotent.Middleware(nil, byUser) },
		"no caller":     func() { idempotent.Middleware(k, nil) },
		"no handler":    func() { idempotent.Middleware(k, byUser)(nil) },
		"MaxAnswer":     func() { idempotent.MaxAnswer(0) },
		"WaitForAnswer": func() { idempotent.WaitForAnswer(0) },
		"FinishWithin":  func() { idempotent.FinishWithin(-1) },
		"KeepStatus":    func() { idempotent.KeepStatus(nil) },
		"BeforeReplay":  func() { idempotent.BeforeReplay(nil) },
		"no middleware": func() {
			none := func(http.Handler) http.Handler { return nil }
			idempotent.Middleware(k, byUser, idempotent.BeforeReplay(none))(http.HandlerFunc(ok))
		},
		"KeepAnswer": func() {
			idempotent.Middleware(k, byUser, idempotent.KeepAnswer(time.Second))
		},
		"no records": func() {
			idempotent.Middleware(newKeeper(t, struct{ renewer.Store }{script.New()}), byUser)
		},
		"negative times": func() {
			idempotent.Middleware(k, byUser, idempotent.KeepAnswer(-time.Second))
		},
	} {
		require.Panics(t, f, name)
	}
}
