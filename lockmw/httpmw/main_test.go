package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = webtest.Secret
	soon   = webtest.Soon
	tick   = 5 * time.Millisecond
)

type answer = webtest.Answer

var (
	scripted, observed    = webtest.Scripted, webtest.Observed
	inBubble, hold, names = webtest.InBubble, webtest.Hold, webtest.Names
	serve, send, read, do = webtest.Serve, webtest.Send, webtest.Read, webtest.Do
	protocols, quiet      = webtest.Protocols, webtest.Quiet
	uncomplaining, never  = webtest.Uncomplaining, webtest.Never
	ok                    = webtest.OK
	requireProblem        = webtest.RequireProblem
)

// asked reports whether the store was asked anything.
func asked(s *script.Store) bool {
	return len(s.Calls(script.Acquire))+len(s.Calls(script.Renew))+len(s.Calls(script.Release)) > 0
}

func get(t *testing.T, path string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func byName[N lockmw.Name](name N) func(*http.Request) N { return webtest.ByName(name) }
