package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			for _, part := range []string{
				"200 OK", "409 Conflict", "503 Service Unavailable",
				"#busy", "#unavailable",
				"#lost", "960 are left; the bank's books are wrong by 0\n",
			} {
				assert.Contains(t, text, part)
			}
		},
		func() { demotest.Untouched(t, 1, tell) },
		func() { demotest.Interrupted(t, tell) },
		// With locks that do not exclude each other, the verdict says so.
		func() {
			verdict := demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"another one on the other server waits its turn: 200",
				"race with the lock: the balance is right", "most transfers at once")
			assert.NotContains(t, verdict, "race without",
				"what is wrong without the lock is none of its faults")
		},
	)
}

// What is printed as a command is what the program sends, to a shell as well.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		request
		want []string
	}{
		{
			request{"http://x/a", `{"to":"bob","amount":10}`},
			[]string{"-i", "http://x/a", "-d", `{"to":"bob","amount":10}`},
		},
		{
			request{"http://x/$(printf %04d 0)", ""},
			[]string{"-iX", http.MethodPost, "http://x/0000"},
		},
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
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: demo.TTL})
	require.NoError(t, err)
	defer func() { require.NoError(t, keeper.Shutdown(t.Context())) }()
	h := routes(keeper, twoservers.NewLedger())
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{
			"POST", "ada/transfer", `{"to":"bob","amount":10}`, http.StatusOK,
			`{"account":"ada","balance":990}`,
		},
		{"POST", "ada/withdraw", "", http.StatusOK, `{"account":"ada","balance":970}`},
		{
			"POST", "ada/transfer", `{"to":"bob","amount":971}`, http.StatusUnprocessableEntity,
			"less than 971",
		},
		{"POST", "ada/transfer", `{"to":`, http.StatusBadRequest, "unexpected EOF"},
		{"POST", "ada/close", "", http.StatusNotFound, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, "/accounts/"+c.path,
			strings.NewReader(c.body)))
		assert.Equal(t, c.status, w.Code, "%s %s %s", c.method, c.path, c.body)
		assert.Contains(t, w.Body.String(), c.want)
	}
}
