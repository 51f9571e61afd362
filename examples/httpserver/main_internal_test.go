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
	for _, status := range []string{"200 OK", "409 Conflict", "400 Bad Request", "503 Service Unavailable", "422 Unprocessable Entity"} {
		assert.Contains(t, text, status)
	}
	for _, reason := range []string{"#TypeBusy", "#TypeBadRequest", "#TypeUnavailable", "#TypeLost"} {
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
		"another one on the other server waits its turn: 200", "race with the lock: the balance is right", "most transfers at once",
	} {
		assert.Contains(t, verdict, claim)
	}
	assert.NotContains(t, verdict, "race without", "what is wrong without the lock is none of its faults")
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
	held, err := stage.Play(ctx, stage.Setting{Program: "test", Redis: server.Addr(), Out: out}, tell)
	require.NoError(t, err)
	require.False(t, held)
	assert.Contains(t, out.String(), "It did not hold: "+context.Canceled.Error())
	assert.NotContains(t, out.String(), "\n3. ")
	assert.Regexp(t, `locks left behind +0 +ok`, out.String())
	size, err := server.DBSize()
	require.NoError(t, err)
	assert.Zero(t, size)
}

// What is printed as a command does what the program did.
func TestCommandsWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: stage.TTL})
	require.NoError(t, err)
	defer func() { require.NoError(t, keeper.Shutdown(t.Context())) }()
	s := httptest.NewServer(routes(keeper, ledger.New(map[string]int{"ada": stage.Funds, "bob": 0, "cash": 0})))
	defer s.Close()
	long := post(s.URL, "/accounts/"+strings.Repeat("0", 600)+"/withdraw", "")
	long.shown = s.URL + "/accounts/$(printf %0600d 0)/withdraw"
	for _, c := range []struct {
		request
		want string
	}{
		{post(s.URL, "/accounts/ada/transfer", `{"to":"bob","amount":10}`), `"balance":990}`},
		{post(s.URL, "/accounts/ada/withdraw", ""), `"balance":970}`},
		{request{method: http.MethodGet, url: s.URL + "/accounts/ada"}, `"balance":970}`},
		{long, "empty or too long"},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", c.curl()).Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), c.want, c.curl())
	}
}
