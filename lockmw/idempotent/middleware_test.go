package idempotent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func byUser(r *http.Request) string { return r.Header.Get("User") }

// order is a request to order something.
func order(ctx context.Context, key, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders?now=1",
		strings.NewReader(body))
	r.Header.Set("User", "ann")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
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
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(&shop)
		first := answered(h, order(t.Context(), "k-1", "pen"))
		assert.Equal(t, http.StatusCreated, first.Code)
		assert.Equal(t, "order 1: pen", first.Body.String())
		assert.Empty(t, first.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, "session=secret", first.Header().Get("Set-Cookie"))
		for _, key := range []string{"k-1", `"k-1"`, ` "k-1" `} {
			again := answered(h, order(t.Context(), key, "pen"))
			assert.Equal(t, http.StatusCreated, again.Code)
			assert.Equal(t, "order 1: pen", again.Body.String())
			assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
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
		waitFor(24 * time.Hour)
		assert.Equal(t, "order 4: pen", answered(h, order(t.Context(), "k-1", "pen")).Body.String(),
			"forgotten after a day")
	})
}

func TestRequestsWithoutAUsableKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, MaxBody: 10})(&shop)
		for _, key := range []string{
			"", " ", `""`, `"open`, `"a"b`, `"a\b"`, `"a\`, "a b", "ä",
			"a\x00b", strings.Repeat("k", 256),
		} {
			r := order(t.Context(), "x", "pen")
			r.Header["Idempotency-Key"] = []string{key}
			w := answered(h, r)
			assert.Equal(t, http.StatusBadRequest, w.Code, key)
			assert.Contains(t, w.Body.String(), "Idempotency-Key")
		}
		assert.Equal(t, http.StatusBadRequest, answered(h, order(t.Context(), "", "pen")).Code)
		two := order(t.Context(), "a", "pen")
		two.Header.Add("Idempotency-Key", "b")
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
		optional := idempotent.Middleware(k, idempotent.Config{Caller: byUser, KeyOptional: true})(&shop)
		assert.Equal(t, http.StatusCreated, answered(optional, order(t.Context(), "", "pen")).Code)
		assert.Equal(t, http.StatusCreated, answered(optional, order(t.Context(), "", "pen")).Code)
		assert.EqualValues(t, 3, shop.taken.Load())
		assert.Equal(t, http.StatusBadRequest,
			answered(optional,
				order(t.Context(), `"`, "pen")).Code, "a bad key is none that was left out")
	})
}

// Whatever the handler may go by is another request, and the client is told
// what is compared.
func TestAKeyIsOneRequests(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	var shop shop
	h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(&shop)
	answered(h, order(t.Context(), "k", "pen"))
	for name, edit := range map[string]func(*http.Request){
		"body":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("ink")) },
		"method": func(r *http.Request) { r.Method = http.MethodPut },
		"path":   func(r *http.Request) { r.RequestURI = "/other?now=1" },
		"query":  func(r *http.Request) { r.RequestURI = "/orders?now=2" },
		"no URI": func(r *http.Request) { r.RequestURI, r.URL.Path = "", "/other" },
		"host":   func(r *http.Request) { r.Host = "tenant-b.example" },
		"port":   func(r *http.Request) { r.Host += ":8080" },
		"type":   func(r *http.Request) { r.Header.Set("Content-Type", "text/csv") },
	} {
		r := order(t.Context(), "k", "pen")
		edit(r)
		p := requireProblem(t, do(h, r), http.StatusUnprocessableEntity, httpguard.TypeReused)
		assert.Contains(t, p.Detail,
			"another method, host (with its port), path, query, content type or body", name)
	}
	r := order(t.Context(), "k", "pen")
	r.Host = strings.ToUpper(r.Host)
	assert.Equal(t, "true", answered(h, r).Header().Get("Idempotent-Replayed"),
		"case is nothing to a host")
	assert.EqualValues(t, 1, shop.taken.Load())
}

// What can't be meant is said when the program starts, and by its name.
func TestWhatCantBeMeant(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	with := func(edit func(*idempotent.Config)) func() {
		c := idempotent.Config{Caller: byUser}
		edit(&c)
		return func() { idempotent.Middleware(k, c) }
	}
	for want, f := range map[string]func(){
		"needs a keeper":  func() { idempotent.Middleware(nil, idempotent.Config{Caller: byUser}) },
		"a function that": func() { idempotent.Middleware(k, idempotent.Config{}) },
		"needs a handler": func() { idempotent.Middleware(k, idempotent.Config{Caller: byUser})(nil) },
		"records": func() {
			idempotent.Middleware(newKeeper(t, engine.Of(struct{ store.Store }{script.New()})),
				idempotent.Config{Caller: byUser})
		},
		"less than the lock's TTL": with(func(c *idempotent.Config) { c.KeepAnswer = time.Second }),
		"MaxHold is 1s":            with(func(c *idempotent.Config) { c.MaxHold = time.Second }),
		"idempotent.Config.FinishWithin is -1": with(func(c *idempotent.Config) {
			c.FinishWithin = -1
		}),
		"idempotent.Config.MaxHold is -1":   with(func(c *idempotent.Config) { c.MaxHold = -1 }),
		"idempotent.Config.MaxAnswer is -1": with(func(c *idempotent.Config) { c.MaxAnswer = -1 }),
		"idempotent.Config.MaxStored is -1": with(func(c *idempotent.Config) { c.MaxStored = -1 }),
		"idempotent.Config.MaxRunningPerCaller is -1": with(func(c *idempotent.Config) {
			c.MaxRunningPerCaller = -1
		}),
		"idempotent.Config.WaitForAnswer is -1": with(func(c *idempotent.Config) {
			c.WaitForAnswer = -1
		}),
		"idempotent.Config.KeepAnswer is -1": with(func(c *idempotent.Config) { c.KeepAnswer = -1 }),
		"idempotent.Config.MaxBody is -1":    with(func(c *idempotent.Config) { c.MaxBody = -1 }),
		"idempotent.Config.SealKeys needs": with(func(c *idempotent.Config) {
			c.SealKeys = [][]byte{}
		}),
		"idempotent.Config.SealKeys has 3 ": with(func(c *idempotent.Config) {
			c.SealKeys = [][]byte{[]byte("abc")}
		}),
	} {
		func() {
			defer func() { assert.Contains(t, fmt.Sprint(recover()), want) }()
			f()
		}()
	}
}
