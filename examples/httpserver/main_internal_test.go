package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run tells the story and returns what was printed.
func run(ctx context.Context, t *testing.T, set stage.Setting) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	set.Program, set.Out = "httpserver", &out
	held, err := stage.Play(ctx, set, tell)
	require.NoError(t, err)
	return out.String(), held
}

func TestStory(t *testing.T) {
	t.Parallel()
	text, held := run(t.Context(), t, stage.Setting{})
	require.True(t, held, text)
	for _, status := range []string{
		"200 OK", "409 Conflict", "400 Bad Request",
		"503 Service Unavailable", "422 Unprocessable Entity",
	} {
		assert.Contains(t, text, status)
	}
	for _, reason := range []string{
		"#TypeBusy", "#TypeBadRequest", "#TypeUnavailable",
		"#TypeLost",
	} {
		assert.Contains(t, text, reason)
	}
	assert.Contains(t, text, "960 are left; the bank's books are wrong by 0\n")
	assert.NotContains(t, text, "BROKEN")
	assert.NotContains(t, text, "\x1b", "colours are for terminals")
	assert.LessOrEqual(t, strings.Count(text, "\n"), 120, "a newcomer reads it in a minute")
	for l := range strings.Lines(text) {
		assert.LessOrEqual(t, len(l), 130, "it fits on a screen: %s", l)
	}
}

// On a server of the user's, nothing is left behind, and nothing that was there is touched.
func TestStoryOnRealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("SET", "precious", "1").Error())
	text, held := run(t.Context(), t, stage.Setting{Redis: server.Addr()})
	require.True(t, held, text)
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, []string{"precious"}, keys)
}

// With locks that do not exclude each other, the verdict says so.
func TestServersWithLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	text, held := run(t.Context(), t, stage.Setting{Apart: true})
	require.False(t, held, text)
	_, verdict, _ := strings.Cut(text, "It did not hold: ")
	for _, claim := range []string{
		"another one on the other server waits its turn: 200",
		"race with the lock: the balance is right", "most transfers at once",
	} {
		assert.Contains(t, verdict, claim)
	}
	assert.NotContains(t, verdict, "race without",
		"what is wrong without the lock is none of its faults")
	assert.NotContains(t, verdict, "locks left behind")
}

// interrupting calls stop when a text is printed.
type interrupting struct {
	bytes.Buffer

	at   string
	stop func()
}

func (w *interrupting) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.at)) {
		w.stop()
	}
	return w.Buffer.Write(p)
}

// Interrupted in the middle, it says that it did not come to its end, and cleans up all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupting{at: "[2]", stop: cancel}
	held, err := stage.Play(ctx, stage.Setting{Program: "test", Redis: server.Addr(), Out: out},
		tell)
	require.NoError(t, err)
	require.False(t, held)
	assert.Contains(t, out.String(), "It did not hold: "+context.Canceled.Error())
	assert.NotContains(t, out.String(), "\n3. ")
	assert.Regexp(t, `locks left behind +0 +ok`, out.String())
	size, err := server.DBSize()
	require.NoError(t, err)
	assert.Zero(t, size)
}

// What is printed as a command is what the program sends, to a shell as well.
func TestCommands(t *testing.T) {
	t.Parallel()
	long := post("http://x", "/accounts/"+strings.Repeat("0", 600)+"/withdraw", "")
	long.shown = "http://x/accounts/$(printf %0600d 0)/withdraw"
	for _, c := range []struct {
		request
		want []string
	}{
		{
			post("http://x", "/a", `{"to":"bob","amount":10}`),
			[]string{"-i", "http://x/a", "-d", `{"to":"bob","amount":10}`},
		},
		{post("http://x", "/a", ""), []string{"-i", "http://x/a", "-X", http.MethodPost}},
		{request{method: http.MethodGet, url: "http://x/a"}, []string{"-i", "http://x/a"}},
		{long, []string{"-i", long.url, "-X", http.MethodPost}},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c",
			`curl() { printf '%s\n' "$@"; }; `+c.curl()).Output()
		require.NoError(t, err)
		assert.Equal(t, strings.Join(c.want, "\n")+"\n", string(out))
	}
}

// The same handlers with any store: what they answer is told apart by status.
func TestAnswers(t *testing.T) {
	t.Parallel()
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: stage.TTL})
	require.NoError(t, err)
	defer func() { require.NoError(t, keeper.Shutdown(t.Context())) }()
	h := routes(keeper, ledger.New(map[string]int{"ada": 100, "bob": 0, "cash": 0}))
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{http.MethodGet, "/accounts/ada", "", http.StatusOK, `{"account":"ada","balance":100}`},
		{http.MethodGet, "/accounts/eve", "", http.StatusNotFound, `no account "eve"`},
		{
			http.MethodPost, "/accounts/ada/transfer", `{"to":"bob","amount":10}`, http.StatusOK,
			`{"account":"ada","balance":90}`,
		},
		{
			http.MethodPost, "/accounts/ada/withdraw", "", http.StatusOK,
			`{"account":"ada","balance":70}`,
		},
		{
			http.MethodPost, "/accounts/ada/transfer", `{"to":"bob","amount":71}`,
			http.StatusUnprocessableEntity, "less than 71",
		},
		{
			http.MethodPost, "/accounts/ada/transfer", `{"to":`, http.StatusBadRequest,
			"unexpected EOF",
		},
		{http.MethodPost, "/accounts/ada/close", "", http.StatusNotFound, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path,
			strings.NewReader(c.body)))
		assert.Equal(t, c.status, w.Code, "%s %s %s", c.method, c.path, c.body)
		assert.Contains(t, w.Body.String(), c.want)
	}
}
