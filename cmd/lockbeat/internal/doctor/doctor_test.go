package doctor_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/doctor"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

func TestMain(m *testing.M) {
	suite.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// report is what the doctor has found: for each check the status and what it says.
type report map[string]string

// examine runs the doctor with these lines of configuration. It returns what it prints for people,
// what it has found, and its exit status.
func examine(t *testing.T, lines ...string) (text string, found report, status int) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600))
	run := func(args ...string) (string, int) {
		var stdout, stderr bytes.Buffer
		status := cli.Main(append([]string{"doctor", "--config", config}, args...), &stdout, &stderr)
		require.Empty(t, stderr.String())
		return stdout.String(), status
	}
	text, status = run()
	asJSON, _ := run("--json")
	var d struct {
		Findings []struct{ Check, Server, Status, Found, Change string }
	}
	require.NoError(t, json.Unmarshal([]byte(asJSON), &d), asJSON)
	found = make(report)
	for _, f := range d.Findings {
		assert.Contains(t, text, f.Check)
		if f.Status == "WARN" || f.Status == "FAIL" {
			assert.NotEmpty(t, f.Change, f.Check)
		}
		found[f.Check] += f.Status + " " + f.Found + "; " + f.Change + "\n"
	}
	return text, found, status
}

func url(s *redistest.Server) string { return "LOCKBEAT_URL=redis://" + s.Addr() }

func TestAllIsWell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	text, found, status := examine(t, url(s))
	assert.Zero(t, status, text)
	for _, check := range []string{
		"connection", "version", "latency", "memory", "persistence", "replicas", "clock",
		"rights to lock", "rights lines of waiters", "rights limits", "rights lines of tasks",
		"rights to look", "rights to break", "keys",
	} {
		assert.Contains(t, found[check], "OK ", check)
		delete(found, check)
	}
	assert.Empty(t, found)
	assert.Regexp(t, `(?m)^OK       latency: p50 \d+\.\d\dms, p99 \d+\.\d\dms of 100 PINGs$`, text)
	size, err := s.DBSize()
	require.NoError(t, err)
	assert.Zero(t, size, "it has changed nothing")
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru")
	require.NoError(t, s.Do("SET", "lockbeat:{x}", "foreign").Error())
	text, found, status := examine(t, url(s))
	assert.Equal(t, 2, status)
	assert.Contains(t, found["memory"], "FAIL maxmemory-policy volatile-lru")
	assert.Contains(t, found["memory"], "noeviction")
	assert.Contains(t, found["persistence"], "WARN none: a restart loses all locks")
	assert.Contains(t, found["keys"], "WARN lockbeat: locks 0, limits 0, keys of another program 1")
	assert.Contains(t, text, "\n         -> set maxmemory-policy noeviction")

	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction").Error())
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", "1mb").Error())
	_, found, status = examine(t, url(s))
	assert.Equal(t, 1, status)
	assert.Contains(t, found["memory"], "raise maxmemory")
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", "0").Error())

	replica := redistest.Start(t)
	require.NoError(t, replica.Follow(s))
	require.Eventually(t, func() bool {
		_, found, _ = examine(t, url(s))
		return strings.Contains(found["replicas"], "WARN 1 connected, min-replicas-to-write 0")
	}, 20*time.Second, 50*time.Millisecond)
	_, found, status = examine(t, url(replica))
	assert.Equal(t, 2, status)
	assert.Contains(t, found["role"], "let LOCKBEAT_URL name the primary")
	require.NoError(t, s.Do("CONFIG", "SET", "min-replicas-to-write", "1").Error())
	_, found, _ = examine(t, url(s))
	assert.Contains(t, found["replicas"], "OK 1 connected, min-replicas-to-write is set, 1 in time")

	text, _, status = examine(t, "LOCKBEAT_URL=redis://127.0.0.1:1")
	assert.Equal(t, 2, status)
	assert.Contains(t, text, "FAIL     connection: lock store unavailable: no connection to 127.0.0.1:1")
}

// The doctor itself ended by a panic: its client sent PING behind UNSUBSCRIBE.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.FillDisk())
	_, found, status := examine(t, url(s))
	assert.Equal(t, 2, status)
	assert.Contains(t, found["persistence"], "FAIL the last snapshot failed, by which Redis refuses "+
		"locks (-MISCONF)")
	assert.Contains(t, found["persistence"], "its disk may be full")
	assert.Contains(t, found["rights to lock"], "OK all of them")
	for setting, value := range map[string]string{
		"stop-writes-on-bgsave-error": "no", "save": "",
	} {
		require.NoError(t, s.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes").Error())
		require.NoError(t, s.Do("CONFIG", "SET", setting, value).Error())
		_, found, _ = examine(t, url(s))
		assert.NotContains(t, found["persistence"], "the last snapshot failed", setting)
	}
	require.NoError(t, s.FillDisk())
	require.NoError(t, s.FreeDisk())
	_, found, _ = examine(t, url(s))
	assert.Contains(t, found["persistence"], "WARN snapshots only")
}

// The docs have the same lists of rights, which a test of package redisstore holds against those
// that are needed.
func TestRightsAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/redis.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(page), `\|`, "|")), " ")
	for _, list := range doctor.Rights() {
		assert.Contains(t, text, list)
	}
}

// A right that is missing is found, whichever it is, and no other is.
func TestEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	user := func(rights ...string) string {
		t.Helper()
		require.NoError(t, s.Do(append([]string{
			"ACL", "SETUSER", "locks", "reset", "resetchannels", "on", ">secret", "~lockbeat:{*",
			"&lockbeat:{*",
		}, rights...)...).Error())
		return "LOCKBEAT_URL=redis://locks:secret@" + s.Addr()
	}
	lists := doctor.Rights()[:6]
	all := strings.Fields(strings.Join(lists, " "))
	_, found, status := examine(t, user(all...))
	assert.Equal(t, 3, status, "INFO is not to be seen")
	assert.Contains(t, found["memory"], "unknown you have no right to look; to see it, grant +info")
	assert.Contains(t, found["rights to lock"], "OK all of them")
	for _, missing := range all {
		var rest []string
		for _, right := range all {
			if right != missing {
				rest = append(rest, right)
			}
		}
		_, found, _ := examine(t, user(rest...))
		named := 0
		for check, text := range found {
			if strings.HasPrefix(check, "rights") && strings.Contains(text, "without ") {
				named++
				assert.Regexp(t, "without "+regexp.QuoteMeta(missing)+"[:;]", text, check)
			}
		}
		assert.Positive(t, named, missing)
	}

	_, found, status = examine(t, user(strings.Fields(lists[0])...))
	assert.Equal(t, 1, status, "without lines all waiters are woken")
	assert.Contains(t, found["rights to break"], "OK ")
	_, found, status = examine(t, user(strings.Fields(lists[4])...))
	assert.Equal(t, 1, status, "a user to look with")
	assert.Contains(t, found["rights to lock"], "nothing can be locked; ACL SETUSER NAME ")
	_, _, status = examine(t, user("+get"))
	assert.Equal(t, 2, status, "a user for nothing")
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	text, found, status := examine(t, url(c.Masters[0]))
	assert.Equal(t, 1, status, "no persistence, and replicas that may be missing")
	assert.Contains(t, found["cluster"], "OK state ok, 16384 of 16384 slots served by 3 nodes")
	assert.Equal(t, 3, strings.Count(found["memory"], "OK "), "each primary")
	for _, m := range c.Masters {
		assert.Contains(t, text, "memory of "+m.Addr())
	}
	assert.Contains(t, found["rights to lock"], "OK all of them")
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	require.NoError(t, s.AwaitWhole())
	addrs := make([]string, len(s.Sentinels))
	for i, sentinel := range s.Sentinels {
		addrs[i] = sentinel.Addr()
	}
	lines := []string{
		"LOCKBEAT_URL=redis://" + strings.Join(addrs, ","),
		"LOCKBEAT_SENTINEL_MASTER=" + redistest.MasterSet,
	}
	_, found, _ := examine(t, lines...)
	assert.Equal(t, 3, strings.Count(found["sentinel"], "3 usable Sentinels"))
	assert.Contains(t, found["connection"], "behind Sentinels")

	require.NoError(t, s.Patience(false))
	s.Sentinels[2].Kill()
	_, found, _ = examine(t, lines...)
	assert.Contains(t, found["sentinel"], "WARN lock store unavailable: no connection")
	s.Sentinels[1].Kill()
	require.Eventually(t, func() bool {
		_, found, _ = examine(t, lines...)
		return strings.Contains(found["sentinel"], "FAIL NOQUORUM")
	}, 30*time.Second, 50*time.Millisecond, found)
}
