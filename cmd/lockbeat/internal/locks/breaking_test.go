package locks_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// breakArgs are those to break a lease.
func breakArgs(lease *renewer.Lease, name string, more ...string) []string {
	return append([]string{
		"break", name, "--token", strconv.FormatInt(lease.Fence(), 10), "--why", "hangs",
	}, more...)
}

func TestBreak(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-1", 3*time.Second)
	lease := hold(t, k, "order:1")
	r := s.run(t, "break", "order:1", "--why", "hangs")
	assert.Equal(t, 64, r.status, "there is no terminal")
	assert.Contains(t, r.stderr, "--token")
	r = s.run(t, "break", "order:1", "--why", "hangs", "--token", "5")
	assert.Equal(t, 65, r.status)
	assert.Regexp(t, `^lockbeat: nothing was broken: 5 is not the token of order:1: web-1 pid \d+ `+
		`has it: show it again\n$`, r.stderr)
	assert.Equal(t, 66, s.run(t, "break", "free", "--why", "hangs", "--token", "5").status)
	assert.Equal(t, 66, s.run(t, "break", "free", "--why", "hangs", "--yes").status)
	require.NoError(t, lease.Context().Err(), "nothing was broken")

	text := s.ok(t, breakArgs(lease, "order:1", "--by", "alice", "--wait", patience.String())...)
	assert.Regexp(t, `^order:1: the lease \d+ is broken\n(.*the lock lapses in .*\n)*after .*: it is `+
		`free\n$`, text)
	var lost *renewer.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lost)
	assert.Equal(t, []string{"alice", "hangs"}, []string{lost.By, lost.Why})

	lease = hold(t, k, "user:7", renewer.Request{Limit: three})
	other := hold(t, k, "user:7", renewer.Request{Limit: three})
	r = s.run(t, "break", "user:7", "--limit", "--yes", "--why", "hangs")
	assert.Equal(t, 64, r.status, "which of them?")
	assert.Contains(t, r.stderr, strconv.FormatInt(other.Fence(), 10))
	text = s.ok(t, breakArgs(lease, "user:7", "--limit", "--wait", patience.String())...)
	assert.Contains(t, text, "its slot is free\n")
	require.NoError(t, other.Context().Err())
}

// A holder that does not return keeps its lock, unless by force.
func TestBreakOfAHolderThatHangs(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-1", patience)
	lease, err := k.Acquire(t.Context(), renewer.Request{Name: "order:1"})
	require.NoError(t, err)
	defer func() { _ = lease.Release(context.Background()) }()
	r := s.run(t, breakArgs(lease, "order:1", "--wait", "100ms")...)
	assert.Equal(t, 75, r.status)
	assert.Regexp(t, `web-1 pid \d+ has (not heard so yet: its next heartbeat .*|been told, and has `+
		`not returned yet); the lock lapses in \d+s at the latest\n`, r.stdout)
	assert.Contains(t, r.stderr, "--force")
	<-lease.Context().Done()
	assert.Contains(t, s.ok(t, breakArgs(lease, "order:1")...), "has been told, and has not returned")

	locks, _, _ := decode(t, s.ok(t, "ls", "--json"))
	assert.Equal(t, "broken", locks[0].State)
	assert.Equal(t, "hangs", locks[0].Slots[0].Broken.Why)
	assert.True(t, locks[0].Slots[0].Broken.Told)
	assert.Contains(t, s.ok(t, "show", "order:1"), ": hangs\n", "and does not look for renewals")

	r = s.run(t, breakArgs(lease, "order:1", "--force", "--json")...)
	assert.Zero(t, r.status)
	assert.Contains(t, r.stderr, "side by side")
	var outcome struct {
		Name, By, Why, Outcome string
		Token                  int64
		Force                  bool
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &outcome))
	assert.Equal(t, []any{"order:1", "hangs", "free", lease.Fence(), true},
		[]any{outcome.Name, outcome.Why, outcome.Outcome, outcome.Token, outcome.Force})
	assert.Contains(t, outcome.By, "@")
	assert.Equal(t, 66, s.run(t, "show", "order:1").status)
}

// The rights that docs/redis.md gives to look, and to break.
const (
	lookRights  = "+scan +getrange +pttl +time +zscan +zcard +zrange +hmget"
	breakRights = "+evalsha +eval +get +set +del +pttl +publish +zpopmin"
)

func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	s := start(t)
	lease := hold(t, s.keeper(t, "web-1", patience), "order:1")

	looker := s.as(t, "looker", lookRights)
	assert.Contains(t, looker.ok(t, "ls"), "order:1")
	assert.Contains(t, looker.ok(t, "show", "order:1", "--look", "0"), "web-1")
	r := looker.run(t, breakArgs(lease, "order:1")...)
	assert.Equal(t, 77, r.status)
	assert.Contains(t, r.stderr, "to break a lease needs")
	require.NoError(t, lease.Context().Err())

	nobody := s.as(t, "nobody", "+ping")
	for _, args := range [][]string{
		{"ls"}, {"show", "order:1"}, {"top"}, breakArgs(lease, "order:1"),
	} {
		r := nobody.run(t, args...)
		assert.Equal(t, 77, r.status, args)
		assert.Contains(t, r.stderr, "+scan", args)
	}

	breaker := s.as(t, "breaker", lookRights+" "+breakRights)
	breaker.ok(t, breakArgs(lease, "order:1")...)
	<-lease.Context().Done()

	wrong := site{Server: s.Server, config: configFor(t, "redis://nobody:wrong@"+s.Addr())}
	assert.Equal(t, 78, wrong.run(t, "ls").status)
}

// What another program has written is no lease, and not free either.
func TestForeignKeyIsNotFree(t *testing.T) {
	t.Parallel()
	s := start(t)
	require.NoError(t, s.Do("SET", "lockbeat:{text}", "x").Error())
	require.NoError(t, s.Do("HSET", "lockbeat:{hash}", "x", "y").Error())
	for _, name := range []string{"text", "hash"} {
		assert.Contains(t, s.ok(t, "show", name), "another program has written its key")
		for _, which := range [][]string{{"--yes"}, {"--token", "7"}} {
			r := s.run(t, append([]string{"break", name, "--why", "x"}, which...)...)
			assert.Equal(t, 65, r.status, which)
			assert.Contains(t, r.stderr, "another program has written", which)
			assert.NotContains(t, r.stderr, "free")
		}
		_, err := s.keeper(t, "web-1", patience).Acquire(t.Context(), renewer.Request{
			Name: name, Try: true,
		})
		assert.ErrorContains(t, err, "another program has written")
	}
}

func TestServerIsAway(t *testing.T) {
	t.Parallel()
	s := site{config: configFor(t, "redis://127.0.0.1:1")}
	for _, args := range [][]string{
		{"ls"}, {"show", "a"}, {"top"}, {"break", "a", "--token", "1", "--why", "x"},
	} {
		r := s.run(t, args...)
		assert.Equal(t, 69, r.status, args)
		assert.Contains(t, r.stderr, "127.0.0.1:1")
	}
}
