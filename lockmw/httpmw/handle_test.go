package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// transfer is the body of requests.
type transfer struct {
	Account string
	Amount  int
}

func byAccount(in transfer) string { return in.Account }

func post(t *testing.T, body string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
}

func TestHandle(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	h := httpmw.Handle(k, func(in transfer) string { return lockmw.Key("account", in.Account) },
		func(w http.ResponseWriter, r *http.Request, in transfer) {
			assert.Equal(t, transfer{"7", 100}, in)
			assert.True(t, lockmw.Held(r.Context(), "account:7"))
			ok(w, r)
		}, httpmw.Operation("transfer"))
	a := send(t, serve(t, h), http.MethodPost, "/", strings.NewReader(` {"Account":"7","Amount":100} `))
	assert.Equal(t, "done", a.body)
	assert.Equal(t, []string{"account:7"}, names(store))
}
