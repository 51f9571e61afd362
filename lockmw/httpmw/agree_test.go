package httpmw_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// One account, one lock, however a client writes it.
func TestOneAccountIsOneLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}/transfer",
		httpmw.Exclusive(k, httpmw.PathInt("id"))(http.HandlerFunc(ok)))
	mux.Handle("/tenants/{tenant}/accounts/{id}",
		httpmw.Exclusive(k, httpmw.PathInt("tenant", "id"))(http.HandlerFunc(ok)))
	mux.Handle("/orders/{id}", httpmw.Exclusive(k, httpmw.PathUUID("id"))(http.HandlerFunc(ok)))
	for _, path := range []string{
		"/accounts/7/transfer", "/accounts/07/transfer",
		"/accounts/+7/transfer", "/accounts/%37/transfer",
	} {
		assert.Equal(t, "done", do(mux, get(t, path)).body, path)
	}
	assert.Equal(t, "done", do(mux, get(t, "/tenants/007/accounts/008")).body)
	for _, path := range []string{
		"/orders/6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
		"/orders/%7B6ba7b810-9dad-11d1-80b4-00c04fd430c8%7D",
		"/orders/6ba7b8109dad11d180b400c04fd430c8",
		"/orders/urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
	} {
		assert.Equal(t, "done", do(mux, get(t, path)).body, path)
	}
	order := "/orders/6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	assert.Equal(t, []string{
		"/accounts/7", "/accounts/7", "/accounts/7", "/accounts/7", "/tenants/7/accounts/8", order,
		order, order, order,
	}, names(store))
	for _, path := range []string{
		"/accounts/%207/transfer", "/accounts/seven/transfer", "/accounts/7.0/transfer",
		"/accounts/99999999999999999999/transfer",
		"/orders/7", "/tenants/x/accounts/8",
	} {
		requireProblem(t, do(mux, get(t, path)), http.StatusBadRequest, httpmw.TypeBadRequest)
	}
	assert.Len(t, names(store), 9)
}

// A name that is there twice is one value to one parser, and another to the next.
func TestBodiesWithANameTwiceAreRefused(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	h := httpmw.Handle(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {
		assert.Fail(t, "it ran")
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
		bytes.NewBufferString(`{"Account":"7","Account":"8"}`))
	requireProblem(t, do(h, r), http.StatusBadRequest, httpmw.TypeBadRequest)
	assert.False(t, asked(store))
	var twice transfer
	require.NoError(t, json.Unmarshal([]byte(`{"Account":"7","Account":"8"}`), &twice),
		"so it must be looked for")
}
