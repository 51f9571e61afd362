package locks_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

func TestShow(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.run(t, "show", "order:1")
	assert.Equal(t, 66, r.status)
	assert.Equal(t, "lockbeat: no lock and no limit of the name order:1 is held: it is free, or "+
		"was never locked under this prefix\n", r.stderr)

	k := s.keeper(t, "web-1", 2*time.Second)
	lease := hold(t, k, "order:1", renewer.Request{Operation: "charge"})
	s.wait(t, s.keeper(t, "web-2", 2*time.Second), "order:1")
	text := s.ok(t, "show", "order:1", "--look", "20s")
	for _, want := range []string{
		`(?m)^lock       order:1$`, `(?m)^state      held$`, `(?m)^host       web-1$`,
		`(?m)^pid        ` + strconv.Itoa(os.Getpid()) + `$`, `(?m)^operation  charge$`,
		`(?m)^since      20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC, for \d`,
		`(?m)^ttl        (1\.\ds|\d+ms) left$`,
		`(?m)^token      ` + strconv.FormatInt(lease.Fence(), 10) + `$`,
		`(?m)^waiting    1 process in line$`, `(?m)^1  .* UTC`,
		`(?m)^renewed    yes, seen after \d+ms$`,
	} {
		assert.Regexp(t, want, text)
	}

	// One without a heartbeat is not renewed while it is looked at, and one
	// that is freed is gone.
	hold(t, s.keeper(t, "web-3", time.Minute), "slow", renewer.Request{Manual: time.Minute})
	text = s.ok(t, "show", "slow", "--look", "300ms")
	assert.Regexp(t, `(?m)^renewed    not within \d+ms; `, text)
	locks, _, _ := decode(t, s.ok(t, "show", "slow", "--look", "300ms", "--json"))
	require.NotNil(t, locks[0].Slots[0].Renewed)
	assert.False(t, *locks[0].Slots[0].Renewed)

	// The lock and the limit of one name are two things.
	hold(t, k, "user:7", renewer.Request{Limit: three})
	hold(t, k, "user:7", renewer.Request{Limit: three})
	text = s.ok(t, "show", "user:7", "--look", "20s")
	assert.Regexp(t, `(?m)^limit      user:7\n.*\nstate      held by 2$`, text)
	assert.Regexp(t, `(?m)^ +TOKEN  HOLDER +AGE +TTL$`, text)
	assert.Regexp(t, `(?m)^renewed    2 of 2: yes, seen after \d+ms$`, text)
	hold(t, k, "user:7")
	locks, _, _ = decode(t, s.ok(t, "show", "user:7", "--look", "0", "--json"))
	assert.Equal(t, []bool{false, true}, []bool{locks[0].Limit, locks[1].Limit})
	assert.NotContains(t, s.ok(t, "show", "user:7", "--look", "0", "--limit"), "lock ")
	assert.Equal(t, 66, s.run(t, "show", "order:1", "--limit").status)

	turn := []string{"ZADD", "lockbeat:{turn}:slots", "9000000000000000", "7 INBOX"}
	require.NoError(t, s.Do(turn...).Error())
	assert.Contains(t, s.ok(t, "show", "turn", "--limit"), "state      turn: ")
}

func TestShowByHash(t *testing.T) {
	t.Parallel()
	s := start(t)
	hold(t, s.keeper(t, "web-1", patience), "order:1")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("pepper\n"), 0o600))
	for _, args := range [][]string{
		{"--hash", renewer.HashName("order:1", nil)},
		{"--hash", renewer.HashName("order:1", []byte("pepper")), "--secret-file", secret},
	} {
		text := s.ok(t, append([]string{"show", "--look", "0"}, args...)...)
		assert.Contains(t, text, "lock       order:1\nhash       "+args[1]+"\n")
	}
	r := s.run(t, "show", "--hash", renewer.HashName("order:1", []byte("pepper")))
	assert.Equal(t, 66, r.status)
	assert.Contains(t, r.stderr, "--secret-file")
}
