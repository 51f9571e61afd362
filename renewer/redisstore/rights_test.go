package redisstore_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// user makes a user with the given rights on the keys and channels of
// prefix, and returns a client of theirs.
func (s server) user(t testing.TB, prefix string, rights ...string) rueidis.Client {
	t.Helper()
	return s.userNamed(t, "locks", prefix, rights...)
}

// storeWith is the store of a user with the given rights.
func (s server) storeWith(t testing.TB, rights string) *redisstore.Engine {
	t.Helper()
	return storeOn(t, s.user(t, redisstore.DefaultPrefix, strings.Fields(rights)...))
}

func (s server) userNamed(t testing.TB, name, prefix string, rights ...string) rueidis.Client {
	t.Helper()
	s.ok(t, append([]string{"ACL", "SETUSER", name}, append(scope(prefix), rights...)...)...)
	return s.client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = name, "secret" })
}

// scope begins a user's rules as documented.
func scope(prefix string) []string {
	return []string{
		"reset", "resetchannels", "on", ">secret", "~" + prefix + "{*",
		"&" + prefix + "{*",
	}
}

// documented returns a file's words, of Go's comments too.
func documented(t testing.TB, file string) string {
	t.Helper()
	doc, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "//", "")), " ")
}

func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	text := documented(t, "../../docs/redis.md")
	for _, list := range []string{
		redisstore.Rights, redisstore.ClusterRights,
		redisstore.SentinelRights, redisstore.RoleRight, redisstore.WaitRight,
		redisstore.NativeRights, redisstore.LineRights, redisstore.LimitRights,
		redisstore.TaskRights,
		redisstore.LookRights, redisstore.BreakRights, redisstore.BreakLimitRights,
	} {
		assert.Contains(t, text, list)
	}
}

// Each right is needed: without it New refuses, or the watch says so.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	all := strings.Fields(redisstore.Rights)
	for i, missing := range all {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			rights := append(append([]string{}, all[:i]...), all[i+1:]...)
			store, err := redisstore.NewEngine(
				s.userNamed(t, "without"+missing, redisstore.DefaultPrefix, rights...))
			if !strings.HasSuffix(missing, "subscribe") {
				require.ErrorIs(t, err, renewer.ErrRejected)
				assert.ErrorContains(t, err, missing, "which to grant")
				assert.ErrorContains(t, err, "~lockbeat:{* &lockbeat:{*")
				if missing != "+eval" && missing != "+evalsha" {
					assert.ErrorContains(t, err, "refuses "+strings.ToUpper(missing[1:]),
						"which is missing")
				}
				return
			}
			require.NoError(t, err)
			t.Cleanup(store.Close)
			w := newWatch(store, "a")
			defer w.stop()
			require.Eventually(t, func() bool {
				return len(w.errors()) > 0
			}, patience, time.Millisecond)
			assert.ErrorContains(t, w.errors()[0], "NOPERM")
			assert.ErrorContains(t, w.errors()[0], "redisstore: watch: ")
		})
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	_, err := redisstore.NewEngine(s.user(t, "other:", strings.Fields(redisstore.Rights)...))
	require.ErrorIs(t, err, renewer.ErrRejected)
	assert.ErrorContains(t, err, "~lockbeat:{* &lockbeat:{*")
	_, err = redisstore.NewEngine(s.user(t, "other:", strings.Fields(redisstore.Rights)...),
		redisstore.Prefix("other:"))
	require.NoError(t, err)
}

// Rights taken away later are told apart from "not yours".
func TestRightsTakenAway(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeWith(t, redisstore.Rights)
	mine(t, store, claim("held", "a", time.Minute))
	for _, right := range []string{"-mget", "-get"} {
		s.ok(t, "ACL", "SETUSER", "locks", right)
	}
	unknown(t, store, false, "grant the user")
	s.ok(t, "ACL", "SETUSER", "locks", "+get", "+mget", "-pexpire")
	a := renew(t, store, hold("held", "a", time.Hour))
	assert.Equal(t, contract.StatusUnknown, a.Status)
	assert.ErrorIs(t, a.Err, renewer.ErrRejected)
}
