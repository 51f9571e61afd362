package doctor_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/doctor"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// report is what the doctor has found: for each check the status and what it
// says.
type report map[string]string

// examine runs the doctor with these lines of configuration. It returns what it
// prints for people, what it has found, and its exit status.
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
		"rights to look", "rights to break", "rights to break slots of limits", "keys",
		"other prefixes",
	} {
		assert.Contains(t, found[check], "OK ", check)
		delete(found, check)
	}
	assert.Empty(t, found)
	assert.Regexp(t, `(?m)^OK       latency: p50 \d+\.\d\dms, p99 \d+\.\d\dms of 100 PINGs$`, text)
	assert.Regexp(t, `(?m)^OK       persistence: append-only file, appendfsync always: a restart `+
		`loses nothing; it is up for [\d.]+m?s$`, text)
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
	require.NoError(t, s.Do("SETRANGE", "much", "40000000", "x").Error())
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", used(t, s, 105)).Error())
	_, found, status = examine(t, url(s))
	assert.Equal(t, 1, status)
	assert.Contains(t, found["memory"], "raise maxmemory")
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", "0").Error())
	require.NoError(t, s.Do("DEL", "much").Error())

	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", used(t, s, 50)).Error())
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random").Error())
	require.Eventually(t, func() bool {
		_, found, _ = examine(t, url(s))
		return strings.Contains(found["memory"], " keys evicted since it started; ")
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", "0").Error())

	replica := redistest.Start(t)
	require.NoError(t, replica.Follow(s))
	require.Eventually(t, func() bool {
		_, found, _ = examine(t, url(s))
		return strings.Contains(found["replicas"], "WARN 1 connected, min-replicas-to-write 0")
	}, 20*time.Second, 50*time.Millisecond)
	_, found, status = examine(t, url(replica))
	assert.Equal(t, 2, status)
	assert.Contains(t, found["role"], "of "+s.Addr()+", master_link_status up; let LOCKBEAT_URL name the primary")
	assert.Contains(t, found["writes"], "FAIL the server refuses them: READONLY ")
	require.NoError(t, s.Do("CONFIG", "SET", "min-replicas-to-write", "1").Error())
	_, found, _ = examine(t, url(s))
	assert.Contains(t, found["replicas"], "OK 1 connected, min-replicas-to-write is set, 1 in time")
	require.NoError(t, s.Do("CONFIG", "SET", "min-replicas-to-write", "2").Error())
	_, found, _ = examine(t, url(s))
	assert.Contains(t, found["replicas"], "FAIL 1 connected, 1 in time, too few")
	assert.Contains(t, found["writes"], "FAIL the server refuses them: NOREPLICAS ")

	text, _, status = examine(t, "LOCKBEAT_URL=redis://127.0.0.1:1")
	assert.Equal(t, 2, status)
	assert.Contains(t, text, "FAIL     connection: lock store unavailable: no connection to 127.0.0.1:1")
}

// used is so many percent of the memory that a server uses.
func used(t *testing.T, s *redistest.Server, percent int) string {
	t.Helper()
	info, err := s.Do("INFO", "memory").ToString()
	require.NoError(t, err)
	n, err := strconv.Atoi(regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(info)[1])
	require.NoError(t, err)
	return strconv.Itoa(n * percent / 100)
}

// It was WARN: `doctor | grep FAIL` showed nothing of a server that granted
// nothing.
func TestAFullServerIsAFailure(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	require.NoError(t, s.Do("CONFIG", "SET", "maxmemory", used(t, s, 50)).Error())
	_, found, status := examine(t, url(s))
	assert.Equal(t, 2, status)
	assert.Regexp(t, `^FAIL maxmemory-policy noeviction, .* used \(\d{3} %\); raise maxmemory, or `+
		`see what fills it: a full server grants no lock`, found["memory"])
	assert.Contains(t, found["writes"], "FAIL the server refuses them: OOM ")
}

// It was mute for minutes, where each round trip took a second.
func TestAServerThatIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		text := doctor.Latency(func() error {
			<-time.After(time.Second)
			return nil
		})
		assert.Equal(t, "WARN p50 1000.00ms, p99 1000.00ms of 3 PINGs", text)
		assert.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// What is known is printed: the server may not answer the next question.
func TestLinesComeAsTheyAreFound(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte(url(s)), 0o600))
	r, w := io.Pipe()
	go func() {
		cli.Main([]string{"doctor", "--config", config}, w, io.Discard)
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	require.True(t, lines.Scan())
	assert.Contains(t, lines.Text(), "connection: ")
	s.Kill()
	text := ""
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	assert.Regexp(t, `(?m)^FAIL +\S.*: no answer: `, text)
	assert.NotContains(t, text, "rights", "after no answer nothing else is asked")
}

// A prefix that was changed between two deploys lets both run.
func TestOtherPrefixes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	hold := func(prefix, name string) {
		t.Helper()
		store, err := redisstore.Open(t.Context(),
			redisstore.Deployment{Option: s.ClientOption(), Prefix: prefix})
		require.NoError(t, err)
		defer store.Close()
		grant := store.Engine().Acquire(t.Context(), []contract.Claim{{
			Name: name, Owner: strings.Repeat("o", contract.OwnerLen), TTL: time.Hour,
		}})
		require.NoError(t, grant[0].Err)
	}
	for _, key := range []string{"app:{7}:mark", "{%}:mark", "app:{user}", "x{y:{%}:mark"} {
		require.NoError(t, s.Do("SET", key, "1").Error())
	}
	hold("mine:", "x")
	_, found, _ := examine(t, url(s), "LOCKBEAT_PREFIX=mine:")
	assert.Equal(t, "OK none has locks; \n", found["other prefixes"])
	hold("", "x")
	hold("old:", "x")
	require.NoError(t, s.Do("DEL", "old:{x}").Error())
	require.NoError(t, s.Do("ACL", "SETUSER", "looks", "on", ">secret", "~mine:{*", "+scan").Error())
	for _, url := range []string{url(s), "LOCKBEAT_URL=redis://looks:secret@" + s.Addr()} {
		_, found, _ = examine(t, url, "LOCKBEAT_PREFIX=mine:")
		assert.Contains(t, found["other prefixes"], "OK locks are taken under lockbeat: (some are "+
			"held now), old: (none is held now) as well; ", "SCAN is a right to see all names")
	}
	require.NoError(t, s.Do("ACL", "SETUSER", "looks", "-scan", "+get").Error())
	_, found, _ = examine(t, "LOCKBEAT_URL=redis://looks:secret@"+s.Addr())
	assert.Contains(t, found["other prefixes"], "unknown you have no right to look; to see it, "+
		"grant +scan")
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

// The docs have the same lists of rights, which a test of package redisstore
// holds against those that are needed.
func TestRightsAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/redis.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(page), `\|`, "|")), " ")
	for _, list := range doctor.Rights() {
		if !strings.Contains(list, "+ssubscribe") { // the page says so in words
			list = strings.Replace(list, "+spublish", "+publish", 1)
		}
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
	lists := doctor.Rights()[:7]
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
	_, found, status = examine(t, user(strings.Fields("+eval "+lists[0][len("+evalsha +eval "):])...))
	assert.Equal(t, 2, status, "a service that can lock nothing")
	assert.Contains(t, found["rights to lock"], "FAIL without +evalsha: nothing can be locked; ACL "+
		"SETUSER NAME ~lockbeat:{* &lockbeat:{* +evalsha\n")
	_, found, status = examine(t, user("+get"))
	assert.Equal(t, 2, status, "a user for nothing")
	assert.Contains(t, found["rights to lock"], "FAIL ")
}

// Who looks was told that nothing can be locked, at 3 a.m. a false trail.
func TestTheUserWhoIsOnCallLocksNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	user := func(rights string) string {
		require.NoError(t, s.Do(append([]string{
			"ACL", "SETUSER", "looks", "reset", "resetchannels", "on", ">secret", "~lockbeat:{*",
			"&lockbeat:{*",
		}, strings.Fields(rights)...)...).Error())
		return "LOCKBEAT_URL=redis://looks:secret@" + s.Addr()
	}
	lists := doctor.Rights()
	for i, rights := range []string{lists[4], strings.Join(lists[4:7], " ")} {
		_, found, status := examine(t, user(rights+" +info"))
		assert.Equal(t, 3, status, "but for appendfsync all is to be seen")
		assert.Contains(t, found["rights to lock"], "OK none, as meant ")
		assert.NotContains(t, found, "rights limits")
		assert.Equal(t, i == 1, strings.Contains(found["rights to break"], "OK all of them"))
		if i == 0 {
			assert.Contains(t, found["rights to break"], "OK without +evalsha +eval +get ")
		}
	}
	_, found, status := examine(t, user("+info "+strings.Replace(lists[4], "+hmget", "", 1)))
	assert.Equal(t, 1, status)
	assert.Contains(t, found["rights to look"], "WARN without +hmget: ")
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
	assert.Equal(t, 3, strings.Count(found["role"], " a replica, of 127.0.0.1:"))

	lists := doctor.Rights()
	for _, node := range c.Nodes() {
		require.NoError(t, node.Do(append([]string{
			"ACL", "SETUSER", "breaks", "on", ">secret", "~lockbeat:{*", "&lockbeat:{*", "+info",
			"+cluster|slots", "+cluster|shards", "+cluster|info",
		}, strings.Fields(strings.Join(lists[len(lists)-3:], " "))...)...).Error())
	}
	_, found, _ = examine(t, "LOCKBEAT_URL=redis://breaks:secret@"+c.Masters[0].Addr())
	assert.Contains(t, found["rights to break"], "OK all of them")
	assert.NotContains(t, found["cluster"], "unknown")
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
	assert.NotContains(t, found["sentinel"], "the replica")
	assert.Contains(t, found["connection"], "behind Sentinels")
	_, found, status := examine(t, "LOCKBEAT_URL=redis://"+addrs[0])
	assert.Equal(t, 2, status)
	assert.Contains(t, found["role"], "FAIL it is a Sentinel, which holds no locks; let "+
		"LOCKBEAT_SENTINEL_MASTER, ")
	assert.Len(t, found, 2)

	replica, err := s.Replica()
	require.NoError(t, err)
	require.NoError(t, replica.Do("REPLICAOF", "127.0.0.1", "1").Error())
	require.Eventually(t, func() bool {
		_, found, _ = examine(t, lines...)
		return strings.Contains(found["sentinel"], "WARN OK 3 usable Sentinels") &&
			strings.Contains(found["sentinel"], "the replica "+replica.Addr()+" has flags ")
	}, 30*time.Second, 50*time.Millisecond, found)

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
