package httpmw_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// transfer is the body of requests.
type transfer struct {
	Account string
	Amount  int
}

func byAccount(in transfer) string { return in.Account }

func post(t *testing.T, body string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
		strings.NewReader(body))
}

func TestUnusableBodiesAskForNoLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	run := func(w http.ResponseWriter, r *http.Request, in transfer) {
		assert.Equal(t, transfer{"7", 1}, in)
		assert.True(t, lockmw.Held(r.Context(), "7"))
		ok(w, r)
	}
	s := serve(t, httpmw.Wrap(k, byAccount, run, httpmw.MaxBody(100), lockmw.Operation("transfer")))
	for name, c := range map[string]struct {
		body   string
		status int
		detail string
	}{
		"malformed":         {`{"Account":`, 400, "can't be read or decoded"},
		"garbage":           {"\x00\xff", 400, "can't be read or decoded"},
		"empty":             {"", 400, "can't be read or decoded"},
		"a name twice":      {`{"Account":"7","Account":"8"}`, 400, "can't be read or decoded"},
		"of another shape":  {`["7"]`, 400, "can't be read or decoded"},
		"garbage behind it": {`{"Account":"7"} {}`, 400, "can't be read or decoded"},
		"too large":         {`{"Account":"` + repeat("7", 100) + `"}`, 413, "too large"},
		"no key":            {`{}`, 400, "does not say what to lock"},
		"nothing":           {`null`, 400, "does not say what to lock"},
	} {
		a := send(t, s, http.MethodPost, "/", strings.NewReader(c.body))
		assert.Contains(t, requireProblem(t, a, c.status, httpguard.TypeBadRequest).Detail, c.detail,
			name)
		assert.False(t, asked(store), name)
	}
	_, in := raw(t, s, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	requireProblem(t, read(res), 400, httpguard.TypeBadRequest)
	assert.False(t, asked(store))
	exact := `{"Account":"7","Amount":1}`
	a := send(t, s, http.MethodPost, "/", strings.NewReader(exact+repeat(" ", 100-len(exact))))
	assert.Equal(t, "done", a.Text, "the next one")
	assert.Equal(t, "transfer", store.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
}

func TestErrorsOfUnusableBodies(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	var got error
	h := httpmw.Wrap(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {
		assert.Fail(t, "it ran")
	},
		httpmw.OnRefused(func(_ http.ResponseWriter, _ *http.Request, err error) {
			got = err
		}), httpmw.MaxBody(5))
	do(h, post(t, "{"))
	require.ErrorIs(t, got, httpmw.ErrBody)
	_, is := errors.AsType[*json.SyntaxError](got)
	assert.True(t, is)
	assert.EqualError(t, got, "lockbeat: request answered with 400: lockbeat: unusable body: it "+
		"is no httpmw_test.transfer: unexpected end of JSON input")
	do(h, post(t, "{      "))
	_, is = errors.AsType[*http.MaxBytesError](got)
	assert.True(t, is)
	do(h, post(t, "{}"))
	require.ErrorIs(t, got, renewer.ErrName)
	require.NotErrorIs(t, got, httpmw.ErrBody)

	// as a test may make one
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	require.NoError(t, err)
	r.Body = nil
	do(h, r)
	require.ErrorIs(t, got, httpmw.ErrBody)
}

func TestWrapWith(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	form := func(r *http.Request) (*transfer, error) {
		err := r.ParseForm()
		return &transfer{Account: r.PostForm.Get("account")}, err
	}
	byPointer := func(in *transfer) string { return in.Account }
	h := httpmw.WrapWith(k, form, byPointer,
		func(w http.ResponseWriter, r *http.Request, in *transfer) {
			assert.Equal(t, "7", in.Account)
			ok(w, r)
		}, httpmw.MaxBody(20))
	body := func(s string) *http.Request {
		r := post(t, s)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	assert.Equal(t, "done", do(h, body("account=7")).Text)
	requireProblem(t, do(h, body("account=%zz")), 400, httpguard.TypeBadRequest)
	requireProblem(t, do(h, body("account="+repeat("7", 20))), 413, httpguard.TypeBadRequest)
	assert.Equal(t, []string{"7"}, names(store))
	h = httpmw.Wrap(k, func(in *transfer) string {
		return in.Account + "x"
	}, func(w http.ResponseWriter, r *http.Request, in *transfer) {
		assert.Equal(t, &transfer{}, in)
		ok(w, r)
	})
	assert.Equal(t, "done", do(h, post(t, "null")).Text, "a null is no nil pointer")
}
