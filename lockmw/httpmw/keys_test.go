package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	key := httpmw.Header("idempotency-key")
	with := func(values ...string) *http.Request {
		r := get(t, "/")
		r.Header["Idempotency-Key"] = values
		return r
	}
	name, err := key(with("8e03:a b"))
	require.NoError(t, err)
	assert.Equal(t, "Idempotency-Key:8e03%3Aa b", name)
	const prefix = "lockbeat: no key in the request: the header Idempotency-Key "
	for _, c := range []struct {
		want   string
		values []string
	}{
		{"is missing", nil},
		{"is missing", []string{""}},
		{"is there 2 times, send it once", []string{"a", "a"}},
		{"is there 2 times, send it once", []string{"a", "b"}},
		{"has control bytes in it", []string{"a\x00"}},
		{"has control bytes in it", []string{"a\tb"}},
		{"has control bytes in it", []string{"\x7f"}},
	} {
		_, err := key(with(c.values...))
		require.ErrorIs(t, err, httpmw.ErrKey)
		require.EqualError(t, err, prefix+c.want)
	}
}

// What a client sends wrong is answered, asks for no lock, and disturbs nothing.
func TestUnusableRequestsAskForNoLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}",
		httpmw.Exclusive(k, httpmw.PathValue("id"))(http.HandlerFunc(ok)))
	mux.Handle("POST /orders", httpmw.Exclusive(k, httpmw.Header("Key"))(http.HandlerFunc(ok)))
	s := serve(t, mux)
	for name, c := range map[string]struct {
		request string
		ours    bool
	}{
		"10 KB path value": {"POST /accounts/" + repeat("7", 10<<10) + " HTTP/1.1\r\nHost: " +
			"x\r\n\r\n", true},
		"10 KB of encoding": {"POST /accounts/" + repeat("%C3%A9", 2<<10) + " HTTP/1.1\r\nHost: " +
			"x\r\n\r\n", true},
		"missing header": {"POST /orders HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"empty header":   {"POST /orders HTTP/1.1\r\nHost: x\r\nKey: \r\n\r\n", true},
		"repeated header": {
			"POST /orders HTTP/1.1\r\nHost: x\r\nKey: 1\r\nkey: 1\r\n\r\n",
			true,
		},
		"tab in a header": {"POST /orders HTTP/1.1\r\nHost: x\r\nKey: 1\t2\r\n\r\n", true},
		"10 KB header": {"POST /orders HTTP/1.1\r\nHost: x\r\nKey: " + repeat("7", 10<<10) +
			"\r\n\r\n", true},
		"NUL in a header":    {"POST /orders HTTP/1.1\r\nHost: x\r\nKey: 1\x002\r\n\r\n", false},
		"NUL in the path":    {"POST /accounts/\x00 HTTP/1.1\r\nHost: x\r\n\r\n", false},
		"encoding cut short": {"POST /accounts/%4 HTTP/1.1\r\nHost: x\r\n\r\n", false},
	} {
		_, in := raw(t, s, c.request)
		res, err := http.ReadResponse(in, nil)
		require.NoError(t, err, name)
		a := read(res)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, http.StatusBadRequest, a.StatusCode, name)
		if c.ours {
			requireProblem(t, a, http.StatusBadRequest, httpmw.TypeBadRequest)
		}
		assert.False(t, asked(store), name)
	}
	assert.Equal(t, "done", send(t, s, http.MethodPost, "/accounts/7", http.NoBody).body)
	assert.Equal(t, "done", send(t, s, http.MethodPost, "/orders", http.NoBody, "Key", "1").body)
	assert.Equal(t, []string{"/accounts/7", "Key:1"}, names(store))
}

func TestKeyErrorsGoToTheResponder(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	var got error
	h := httpmw.Exclusive(k, httpmw.PathValue("id"),
		httpmw.OnError(func(_ http.ResponseWriter, _ *http.Request, err error) {
			got = err
		}))(never(t))
	r := get(t, "/")
	r.Pattern = "GET /accounts/{id...}"
	do(h, r)
	require.ErrorIs(t, got, httpmw.ErrKey)
	assert.EqualError(t, got, "lockbeat: request answered with 400: lockbeat: no key in the "+
		"request: the path has no value for {id}")
	r.Pattern = "GET /accounts/{nr}"
	do(h, r)
	require.ErrorIs(t, got, renewer.ErrConfig)
	assert.ErrorContains(t, got,
		`the route "GET /accounts/{nr}" has no wildcard {id} for httpmw.PathValue: put the lock `+
			`on the route itself`)
}

// What an option or an argument can't mean is said when the program starts.
func TestMisuseAtConstruction(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	key := httpmw.Header("Key")
	run := func(http.ResponseWriter, *http.Request, transfer) {}
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"httpmw.Exclusive needs a keeper (renewer.New) and a key function such as " +
			"httpmw.PathValue", func() {
			httpmw.Exclusive(nil, key)
		}},
		{"httpmw.Exclusive needs a keeper (renewer.New) and a key function such as " +
			"httpmw.PathValue", func() {
			httpmw.Exclusive(k, nil)
		}},
		{"httpmw.Exclusive needs a handler to put the lock around", func() {
			httpmw.Exclusive(k, key)(nil)
		}},
		{"httpmw.Handle needs a keeper (renewer.New), a key function and a function", func() {
			httpmw.Handle(nil, byAccount, run)
		}},
		{"httpmw.Handle needs a keeper (renewer.New), a key function and a function", func() {
			httpmw.Handle(k, nil, run)
		}},
		{"httpmw.Handle needs a keeper (renewer.New), a key function and a function", func() {
			httpmw.Handle(k, byAccount, nil)
		}},
		{"httpmw.StreamBody is for httpmw.Exclusive: httpmw.Handle decodes the body before it " +
			"asks for the lock", func() {
			httpmw.Handle(k, byAccount, run, httpmw.StreamBody())
		}},
		{"httpmw.ReceiveFence needs a handler", func() { httpmw.ReceiveFence(nil) }},
		{`httpmw.PathValue needs the name of a wildcard of the route, such as "id" for ` +
			`/accounts/{id}`, func() {
			httpmw.PathValue("")
		}},
		{`httpmw.Header needs the name of a header, such as "Idempotency-Key"`, func() {
			httpmw.Header("")
		}},
		{"httpmw.Wait(0s) can't be meant: give a positive duration, or take Refuse so as not to " +
			"wait", func() {
			httpmw.Wait(0)
		}},
		{"httpmw.MaxWaiters(0) can't be meant: give at least 1, or take Refuse so that no " +
			"request waits", func() {
			httpmw.MaxWaiters(0)
		}},
		{"httpmw.MaxWaitersPerClient(0) can't be meant: give at least 1, and a function that " +
			"says who sends a request", func() {
			httpmw.MaxWaitersPerClient(0, key)
		}},
		{"httpmw.MaxWaitersPerClient(1) can't be meant: give at least 1, and a function that " +
			"says who sends a request", func() {
			httpmw.MaxWaitersPerClient(1, nil)
		}},
		{"httpmw.Refuse(503) can't be meant: give 409, 423 or 429", func() { httpmw.Refuse(503) }},
		{
			"httpmw.RetryAfter(0s) can't be meant: give a positive duration, such as a second",
			func() {
				httpmw.RetryAfter(0)
			},
		},
		{
			"httpmw.MaxBody(0) can't be meant: give a number of bytes, such as " +
				"httpmw.DefaultMaxBody",
			func() {
				httpmw.MaxBody(0)
			},
		},
		{"httpmw.BodyTimeout(0s) can't be meant: give a positive duration, such as " +
			"httpmw.DefaultBodyTimeout", func() {
			httpmw.BodyTimeout(0)
		}},
		{"httpmw.Codec needs a function that decodes a request's body", func() {
			httpmw.Codec(nil)
		}},
		{"httpmw.OnBusy needs a responder such as httpmw.Respond", func() { httpmw.OnBusy(nil) }},
		{"httpmw.OnError needs a responder such as httpmw.Respond", func() { httpmw.OnError(nil) }},
		{"httpmw.OnLost needs a responder such as httpmw.Respond", func() { httpmw.OnLost(nil) }},
	} {
		assert.PanicsWithValue(t, "lockbeat: "+c.want, c.f)
	}
}

func TestOptionsOfTypedHandlers(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	store.Default(script.Acquire, script.Taken(renewer.Holder{}, 0))
	h := httpmw.Handle(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {
		assert.Fail(t, "it ran")
	}, httpmw.Refuse(423), httpmw.Operation("transfer"))
	requireProblem(t, do(h, post(t, `{"Account":"alice@example.com"}`)), http.StatusLocked,
		httpmw.TypeBusy)
	assert.Equal(t, "transfer", store.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
}
