package redisstore_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Each return of the scripts that break leases, and of the others for a lease that was broken.
func TestReturnsOfBreaks(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	const inbox, rest = "in-box_1", "\n7\n9\nnode\n1\nop"
	broken := "!" + owner("a")[1:]
	record := x + ":broken:" + broken
	type list = []any
	breaks := func(t *testing.T, s server, how string) any {
		t.Helper()
		return s.runs(t, "break.lua", []string{x}, "7", how+"\nme\nwhy", "line "+inbox)
	}
	withRedis(t, func(t *testing.T, s server) {
		assert.Equal(t, int64(0), breaks(t, s, "broken"))
		s.ok(t, "SET", x, "turn\n1000\n5 "+inbox+" 1000", "PX", "60000")
		assert.Equal(t, int64(0), breaks(t, s, "forced"), "a turn is no owner's")
		s.ok(t, "DEL", x)
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
			return s.runs(t, "release.lua", []string{x}, "5000", "line "+inbox, owner("a"))
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
		s.ok(t, "ZADD", x+":waiters", "1", "5 "+inbox+" 1000")
		assert.Equal(t, list{owner("a") + rest + "\n+", int64(1), "1 1000"}, breaks(t, s, "forced"))
		assert.Equal(t, "turn\n1000\n5 "+inbox+" 1000", s.get(t, x))
		assert.Equal(t, list{int64(1), "forced\nme\nwhy"}, releases())
		assert.Equal(t, list{int64(1), "forced\nme\nwhy"}, renews())
	})
}

// The same of limits.
func TestReturnsOfBrokenSlots(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, store.LimitName("x"))
	const inbox, holder = "in-box_1", "7\n9\nnode\n1\nop"
	const later = "8000000000000001"
	broken := "!" + owner("a")[1:]
	type list = []any
	breaks := func(t *testing.T, s server, how string) any {
		t.Helper()
		return s.runs(t, "slots_break.lua", []string{x}, "7", how+"\nme\nwhy", "line "+inbox,
			owner("a"))
	}
	withRedis(t, func(t *testing.T, s server) {
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
			return s.runs(t, "slots_release.lua", []string{x}, "5000", "line "+inbox, owner("a"))
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
	})
}

// Each return of newest.lua.
func TestReturnsOfNewest(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	const process = "node\n1"
	type list = []any
	withRedis(t, func(t *testing.T, s server) {
		is := func(what, letter, since string) any {
			return s.runs(t, "newest.lua", []string{x}, what, owner(letter), process, since,
				"60000", "replaced\nme\n")
		}
		first, ok := is("wait", "a", "0").(list)
		require.True(t, ok)
		assert.Equal(t, list{"", ""}, first[1:])
		assert.Equal(t, first, is("wait", "a", "0"), "again")
		second, ok := is("wait", "b", "0").(list)
		require.True(t, ok)
		assert.Equal(t, list{process, ""}, second[1:], "whom to tell")
		assert.Greater(t, second[0], first[0])
		assert.Equal(t, int64(0), is("wait", "a", strconv.FormatInt(first[0].(int64), 10)))
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

		t.Log("a call that came before the one that has the lock")
		came := func(since string) string {
			return owner("c") + "\n7\n5000\nnode\n1\nop\n\nnewest " + since
		}
		for _, lease := range []string{came("4000"), came("0") + "\n+", "!" + came("4000")[1:]} {
			s.ok(t, "SET", x, lease, "PX", "60000")
			assert.Equal(t, int64(0), is("break", "a", "3000"), lease)
			assert.Equal(t, lease, s.get(t, x))
			assert.Equal(t, int64(0), s.number(t, "EXISTS", x+":newest"))
		}
		s.ok(t, "SET", x, came("2000"), "PX", "60000")
		assert.Equal(t, list{int64(3000), "", came("2000")}, is("break", "a", "3000"))
		s.ok(t, "SET", x, came("2000")[:strings.LastIndex(came("2000"), "\n")], "PX", "60000")
		assert.Equal(t, int64(3000), is("break", "a", "3000").(list)[0], "a call of another kind")

		t.Log("another program's note")
		for _, note := range [][]string{
			{"SET", x + ":newest", "another program's"},
			{"HSET", x + ":newest", "another", "program's"},
			{"SET", x + ":newest", owner("z") + "\n9007199254740990\n" + process},
		} {
			s.ok(t, "DEL", x+":newest")
			s.ok(t, note...)
			first, ok := is("wait", "b", "0").(list)
			require.True(t, ok, note)
			assert.Less(t, first[0], int64(8e15), note)
			assert.Empty(t, first[1], "no process is told")
		}
	})
}
