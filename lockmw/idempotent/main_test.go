package idempotent_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret    = webtest.Secret
	soon      = webtest.Soon
	maxAnswer = repeat.DefaultMaxAnswer
)

var errDown = errors.New("connection refused")

type reply = webtest.Answer

var (
	scripted, newKeeper, observed = webtest.Scripted, webtest.Keeper, webtest.Observed
	inBubble, hold, names         = webtest.InBubble, webtest.Hold, webtest.Names
	serve, send, read, do         = webtest.Serve, webtest.Send, webtest.Read, webtest.Do
	protocols, quiet              = webtest.Protocols, webtest.Quiet
	uncomplaining                 = webtest.Uncomplaining
	ok                            = webtest.OK
	requireProblem                = webtest.RequireProblem
)

func byName[N lockmw.Name](name N) func(*http.Request) N { return webtest.ByName(name) }

func waitFor(d time.Duration) { <-time.After(d) }
