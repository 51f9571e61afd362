package libraries_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// transfer is the body of requests.
type transfer struct{ Account string }

func byAccount(in transfer) string { return in.Account }

// asker is who sends a request to routes.
type asker struct {
	account string // in the body, as a parser sees it that takes the first of several
	wrong   string // what a handler was at without the lock on it
}

// routes are handlers that find out by themselves which resource a request is for, as handlers do.
// They tell the request's asker if they don't run under the lock on it.
func routes(k *renewer.Keeper) http.Handler {
	demand := func(r *http.Request, name string) {
		if !lockmw.Held(r.Context(), name) {
			askerOf(r).wrong = name
		}
	}
	byInt := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(strings.TrimSpace(value(r, "id"))); err == nil {
			demand(r, fmt.Sprintf("account:%d", n))
		}
	})
	byUUID := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if id, err := uuid.Parse(value(r, "id")); err == nil {
			demand(r, "order:"+id.String())
		}
	})
	byBody := func(_ http.ResponseWriter, r *http.Request, _ transfer) {
		demand(r, askerOf(r).account)
	}
	asItIs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if v, err := url.PathUnescape(value(r, "id")); err == nil && v == value(r, "id") {
			demand(r, lockmw.Key("user", v))
		}
	})
	mux, router := http.NewServeMux(), chi.NewRouter()
	for path, h := range map[string]http.Handler{
		"/accounts/{id}/transfer": httpmw.Middleware(k, httpmw.PathInt("account", "id"))(byInt),
		"/orders/{id}":            httpmw.Middleware(k, httpmw.PathUUID("order", "id"))(byUUID),
		"/users/{id}/name":        httpmw.Middleware(k, httpmw.PathValue("user", "id"))(asItIs),
		"/bodies":                 httpmw.Wrap(k, byAccount, byBody),
	} {
		mux.Handle("POST "+path, h)
		router.Method(http.MethodPost, path, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Router") == "chi" {
			router.ServeHTTP(w, r)
		} else {
			mux.ServeHTTP(w, r)
		}
	})
}

// value is a wildcard's, which chi hands over as it was sent if the path was unusual.
func value(r *http.Request, name string) string {
	if v := chi.URLParam(r, name); v != "" {
		return v
	}
	return r.PathValue(name)
}

// FuzzKeyAndHandlerAgree gives one request, as a server would read it, to a key function and to a
// handler, which must take it for the same resource.
func FuzzKeyAndHandlerAgree(f *testing.F) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(f, err)
	f.Cleanup(func() { _ = k.Shutdown(context.Background()) })
	h := routes(k)
	for _, target := range []string{
		"/accounts/7/transfer", "/accounts/07/transfer", "/accounts/%207/transfer",
		"/accounts/%2B7/transfer", "/accounts/-0/transfer",
		"/accounts/%2537/transfer", "/accounts/9223372036854775808/transfer",
		"/accounts/7%0A/transfer", "//accounts/7/transfer",
		"/accounts/7%2F8/transfer", "/accounts/7/../8/transfer", "/accounts/%EF%BC%97/transfer",
		"http://y/accounts/7/transfer?id=8",
		"/orders/6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
		"/orders/urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"/orders/%7B6ba7b810-9dad-11d1-80b4-00c04fd430c8%7D",
		"/orders/6ba7b8109dad11d180b400c04fd430c8",
		"/users/Ann/name", "/users/%41nn/name", "/users/%C5%BF/name", "/bodies",
	} {
		f.Add(target, `{"Account":"7"}`, true)
		f.Add(target, `{"Account":"7","Account":"8"}`, false)
	}
	f.Add("/bodies", `{"Account":"7","ACCOUNT":"8"}`, true)
	f.Add("/bodies", "{\"From\":\"\xff\"}", true)
	f.Fuzz(func(t *testing.T, target, body string, mux bool) {
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: "+
			"%d\r\n\r\n%s", target, len(body), body)
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		if !mux {
			r.Header.Set("X-Router", "chi")
		}
		a := &asker{account: accountIn(body)}
		h.ServeHTTP(httptest.NewRecorder(),
			r.WithContext(context.WithValue(t.Context(), asker{}, a)))
		assert.Empty(t, a.wrong, "the handler was at it under another lock")
	})
}

func askerOf(r *http.Request) *asker {
	return r.Context().Value(asker{}).(*asker)
}

// accountIn finds the account in a body, as a parser does that takes the first of several.
func accountIn(body string) string {
	d := json.NewDecoder(strings.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return ""
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return ""
		}
		if name, _ := name.(string); strings.EqualFold(name, "account") {
			text, _ := value.(string)
			return text
		}
	}
	return ""
}
