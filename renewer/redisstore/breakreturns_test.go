package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Each return of the scripts that break leases, and of the others for a lease
// that was broken.
func TestReturnsOfBreaks(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	const inbox, rest = "in-box_1", "\n7\n9\nnode\n1\nop"
	broken := "!" + owner("a")[1:]
	record := x + ":broken:" + broken
	type list = []any
	frees := "line " + inbox + " 90000 " + redisstore.MarkKey(redisstore.DefaultPrefix)
	breaks := func(t *testing.T, s server, how string) any {
		t.Helper()
		return s.runs(t, "break.lua", []string{x}, "7", how+"\nme\nwhy", frees)
	}
	_, s := startReal(t)
	assert.Equal(t, int64(0), breaks(t, s, "broken"))
	s.ok(t, "HSET", x, "another", "program's")
	assert.Equal(t, list{"", int64(0)}, breaks(t, s, "broken"))
	s.ok(t, "DEL", x)
	s.ok(t, "SET", x, "another program's", "PX", "60000")
	assert.Equal(t, list{"another program's", int64(0)}, breaks(t, s, "forced"))
	other := owner("a") + strings.Replace(rest, "7", "8", 1)
	s.ok(t, "SET", x, other, "PX", "60000")
	assert.Equal(t, list{other, int64(0)}, breaks(t, s, "broken"))

	s.ok(t, "SET", x, owner("a")+rest, "PX", "50000")
	assert.Equal(t, list{owner("a") + rest, int64(1)}, breaks(t, s, "broken"))
	assert.Equal(t, list{broken + rest, int64(1)}, breaks(t, s, "replaced"))
	assert.Equal(t, broken+rest, s.get(t, x))
	assert.Equal(t, "broken\nme\nwhy", s.get(t, record), "the first who broke it")
	s.pttl(t, x, 1, 50000)
	s.pttl(t, record, 1, 50000)

	renews := func() any {
		return s.runs(t, "renew.lua", []string{x}, "90000", owner("a"), "line")
	}
	assert.Equal(t, list{int64(1), "broken\nme\nwhy"}, renews())
	s.pttl(t, x, 1, 50000)
	s.ok(t, "DEL", record)
	assert.Equal(t, list{int64(1), "broken\n\n"}, renews(), "by whom is lost")
	releases := func() any {
		return s.runs(t, "release.lua", []string{x}, "5000", frees, owner("a"))
	}
	assert.Equal(t, list{}, releases())
	assert.Equal(t, int64(0), s.number(t, "EXISTS", x, record), "also if it was to stay held")

	s.ok(t, "SET", x, owner("a")+rest, "PX", "50000")
	assert.Equal(t, list{}, releases())
	breaks(t, s, "broken")
	s.pttl(t, x, 1, 5000) // its operation had returned: no process frees it
	breaks(t, s, "forced")
	assert.Zero(t, s.number(t, "EXISTS", x))
	s.ok(t, "DEL", record)

	hears(inbox)(t, s)
	s.ok(t, "SET", x, owner("a")+rest+"\n+", "PX", "50000")
	s.ok(t, "ZADD", x+":waiters", "1", member(5, inbox, "b", 5*time.Second))
	assert.Equal(t, list{owner("a") + rest + "\n+", int64(1), "1 5000"}, breaks(t, s, "forced"))
	assert.Regexp(t, owner("b")+`\n\d+\n\d+\nnode-b\n42\ntest\n\+`, s.get(t, x))
	assert.Equal(t, list{int64(1), "forced\nme\nwhy"}, releases())
	assert.Equal(t, list{int64(1), "forced\nme\nwhy"}, renews())
}

// The same of limits.
func TestReturnsOfBrokenSlots(t *testing.T) {
	t.Parallel()
	x := slotsKey("x")
	const inbox, holder = "in-box_1", "7\n9\nnode\n1\nop"
	const later = "8000000000000001"
	broken := "!" + owner("a")[1:]
	type list = []any
	breaks := func(t *testing.T, s server, how string) any {
		t.Helper()
		return s.runs(t, "slots_break.lua", []string{x}, "7", how+"\nme\nwhy", "line "+inbox+" 90000 mark",
			owner("a"))
	}
	_, s := startReal(t)
	assert.Equal(t, int64(0), breaks(t, s, "broken"))
	s.ok(t, "ZADD", x, "5", owner("a"))
	s.ok(t, "HSET", x+":holders", owner("a"), holder)
	assert.Equal(t, int64(0), breaks(t, s, "broken"), "it has lapsed")
	s.ok(t, "ZADD", x, later, owner("a"))
	s.ok(t, "HSET", x+":holders", owner("a"), "8\n9\nnode\n1\nop")
	assert.Equal(t, list{owner("a") + "\n8\n9\nnode\n1\nop", int64(0)}, breaks(t, s, "broken"))
	s.ok(t, "HSET", x+":holders", owner("a"), holder)
	assert.Equal(t, list{owner("a") + "\n" + holder, int64(1)}, breaks(t, s, "broken"))
	assert.Equal(t, list{broken + "\n" + holder, int64(1)}, breaks(t, s, "replaced"))
	assert.Equal(t, int64(1), s.number(t, "ZCARD", x), "it takes its slot still")

	renews := func() any {
		return s.runs(t, "slots_renew.lua", []string{x}, "90000", owner("a"), "line")
	}
	assert.Equal(t, list{int64(1), "broken\nme\nwhy"}, renews())
	releases := func() any {
		return s.runs(t, "slots_release.lua", []string{x}, "5000", "line "+inbox+" 90000 mark",
			owner("a"))
	}
	assert.Equal(t, list{}, releases())
	assert.Equal(t, int64(0), s.number(t, "EXISTS", x, x+":holders", x+":broken:"+broken))

	hears(inbox)(t, s)
	s.ok(t, "ZADD", x, later, owner("a"))
	s.ok(t, "HSET", x+":holders", owner("a"), holder, "+", "")
	s.ok(t, "ZADD", x+":waiters", "1", "5 "+inbox+" 1000")
	got := breaks(t, s, "forced")
	assert.Equal(t, list{owner("a") + "\n" + holder, int64(1), "1 1000"}, got)
	assert.Equal(t, list{int64(1), "forced\nme\nwhy"}, renews())
}

// Each return of newest.lua.
func TestReturnsOfNewest(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	const process = "node\n1"
	type list = []any
	_, s := startReal(t)
	ranked := func(what, letter, rank, since, age string) any {
		return s.runs(t, "newest.lua", []string{x}, what, owner(letter), process, rank, since,
			age, "60000", "replaced\nme\n")
	}
	is := func(what, letter, since string) any { return ranked(what, letter, "0", since, "0") }
	first, ok := is("wait", "a", "0").(list)
	require.True(t, ok)
	assert.Equal(t, list{"", ""}, first[1:])
	assert.Equal(t, first, is("wait", "a", "0"), "again")
	second, ok := is("wait", "b", "0").(list)
	require.True(t, ok)
	assert.Equal(t, list{process, ""}, second[1:], "whom to tell")
	assert.Greater(t, second[0], first[0])
	assert.Equal(t, int64(0), is("wait", "a", strconv.FormatInt(first[0].(int64), 10)))
	assert.Equal(t, int64(0), ranked("wait", "c", "0", "0", "60000000"), "a minute ago")
	assert.Equal(t, int64(0), is("over", "a", "0"))
	s.pttl(t, x+":newest", 1, 60000)

	s.ok(t, "SET", x, "turn\n1000\n5 dead 1000", "PX", "60000")
	assert.Equal(t, list{second[0], "", ""}, is("break", "b", "0"), "a turn is no lease")
	s.ok(t, "SET", x, owner("b")+"\n7\n9\nnode\n1\nop", "PX", "60000")
	assert.Equal(t, list{second[0], "", ""}, is("break", "b", "0"), "its own")
	lease := owner("c") + "\n7\n9\nnode\n1\nop"
	s.ok(t, "SET", x, lease, "PX", "60000")
	assert.Equal(t, list{second[0], "", lease}, is("break", "b", "0"))
	assert.Equal(t, list{second[0], "", ""}, is("break", "b", "0"), "once")
	assert.Equal(t, "!"+lease[1:], s.get(t, x))
	assert.Equal(t, "replaced\nme\n", s.get(t, x+":broken:!"+owner("c")[1:]))
	assert.Equal(t, int64(0), is("over", "b", "0"))
	assert.Equal(t, int64(0), s.number(t, "EXISTS", x+":newest"))

	t.Log("a call that is older than one that has had the lock")
	s.ok(t, "SET", x, lease, "PX", "60000")
	for begun, rank := range map[string]string{"0\n4000": "0", "7\n1": "6", "70\n1": "8"} {
		s.ok(t, "SET", x+":begun", begun)
		assert.Equal(t, int64(0), ranked("break", "a", rank, "3000", "0"), begun)
		assert.Equal(t, lease, s.get(t, x))
		assert.Equal(t, int64(0), s.number(t, "EXISTS", x+":newest"))
	}
	s.ok(t, "SET", x+":begun", "70\n4000")
	assert.Equal(t, list{int64(3000), "", lease}, ranked("break", "a", "70", "3000", "0"))

	t.Log("another program's note")
	for _, note := range [][]string{
		{"SET", x + ":newest", "another program's"},
		{"HSET", x + ":newest", "another", "program's"},
		{"SET", x + ":newest", owner("z") + "\n9007199254740990\n0\n" + process},
		{"SET", x + ":newest", owner("z") + "\n9\n99999999999999999999\n" + process},
	} {
		s.ok(t, "DEL", x+":newest")
		s.ok(t, note...)
		first, ok := is("wait", "b", "0").(list)
		require.True(t, ok, note)
		assert.Less(t, first[0], int64(8e15), note)
		assert.Empty(t, first[1], "no process is told")
	}
}

// Each return of begin.lua that is not one of rule.lua's, and what it writes.
func TestReturnsOfBegin(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)
	const at, holder = "8000000000000000", "node\n1\nop"
	_, s := startReal(t)
	begins := func(letter, rank, since string) any {
		return s.runs(t, "begin.lua", []string{x}, "60000", "90000", mark, "line 60000 in-box_1",
			owner(letter), "", holder, rank, since, "0", "70000")
	}
	s.ok(t, "SET", mark, at)
	assert.Equal(t, int64(8e15+1), begins("a", "9", "3000"), "a token")
	assert.Equal(t, "9\n3000", s.get(t, x+":begun"))
	s.pttl(t, x+":begun", 60001, 70000)
	assert.Equal(t, int64(8e15+1), begins("a", "8", "2000"), "its own")
	assert.Equal(t, "9\n3000", s.get(t, x+":begun"))
	assert.Equal(t, int64(0), begins("b", "8", "4000"), "older")
	taken, ok := begins("b", "10", "4000").([]any)
	require.True(t, ok)
	assert.Len(t, taken, 3, "another owner has it")
	assert.Equal(t, "9\n3000", s.get(t, x+":begun"), "this one has not begun")

	s.ok(t, "DEL", x)
	assert.Equal(t, int64(0), begins("b", "0", "2999"), "made before")
	s.ok(t, "PEXPIRE", x+":begun", "90000")
	assert.Equal(t, int64(8e15+2), begins("b", "0", "4000"), "made after")
	assert.Equal(t, "9\n4000", s.get(t, x+":begun"), "the rank stays")
	s.pttl(t, x+":begun", 70001, 90000)
	s.ok(t, "DEL", x)
	assert.Equal(t, int64(8e15+3), begins("c", "9223372036854775807", "4000"))
	s.ok(t, "DEL", x)
	assert.Equal(t, int64(0), begins("d", "9223372036854775806", "5000"), "less by one")

	t.Log("what is not ours, or was written by a clock that was set back since")
	for _, begun := range [][]string{
		{"SET", x + ":begun", "another program's"},
		{"HSET", x + ":begun", "another", "program's"},
		{"SET", x + ":begun", "99999999999999999999\n1"},
		{"SET", x + ":begun", "0\n" + at},
	} {
		s.ok(t, "DEL", x, x+":begun")
		s.ok(t, begun...)
		assert.IsType(t, int64(0), begins("e", "1", "3000"), begun)
		assert.Equal(t, "1\n3000", s.get(t, x+":begun"), begun)
	}
}
