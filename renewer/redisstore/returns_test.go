package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// runs calls a script as its file says, on locks x and y.
func (s server) runs(t *testing.T, script string, keys []string, args ...string) any {
	t.Helper()
	words := append([]string{"EVAL", redisstore.ScriptText(script), strconv.Itoa(len(keys))}, keys...)
	r, err := s.do(t, append(words, args...)...).ToAny()
	require.NoError(t, err)
	return r
}

// Each return of the scripts that keep locks, as their heads give them.
func TestReturnsOfScripts(t *testing.T) {
	t.Parallel()
	x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	y := redisstore.LeaseKey(redisstore.DefaultPrefix, "y")
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)
	_, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "x")
	const at, inbox, holder = "8000000000000000", "in-box_1", "node\n1\nop"
	value := func(letter string) string { return owner(letter) + "\n" + at + "\n7\n" + holder }
	place := member(5, inbox, "a", 2*time.Second)
	type list = []any

	claims := []string{"60000", "90000", mark, "line 60000 " + inbox, owner("a")}
	acquires := func(t *testing.T, s server, place string) any {
		t.Helper()
		return s.runs(t, "acquire.lua", []string{x}, append(claims[:5:5], place, holder)...)
	}
	proposes := func(t *testing.T, s server, token, reserve string) any {
		t.Helper()
		return s.runs(t, "propose.lua", []string{x},
			append(claims[:5:5], "", holder, token, reserve)...)
	}
	renews := func(t *testing.T, s server) any {
		t.Helper()
		return s.runs(t, "renew.lua", []string{x, y}, "60000", owner("a"), owner("a"), "line")
	}
	releases := func(t *testing.T, s server, rest string) any {
		t.Helper()
		return s.runs(t, "release.lua", []string{x}, "0", "line "+inbox+" 90000 "+mark,
			owner("a")+rest)
	}
	gives := func(args ...string) func(t *testing.T, s server) {
		return func(t *testing.T, s server) { s.ok(t, args...) }
	}
	for name, c := range map[string]struct {
		before []func(t *testing.T, s server)
		run    func(t *testing.T, s server) any
		want   func(t *testing.T, got any)
	}{
		"acquire: a token": {
			[]func(*testing.T, server){gives("SET", mark, at)},
			func(t *testing.T, s server) any { return acquires(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, int64(8e15+1), got) },
		},
		"acquire: a token of the server's clock": {
			nil,
			func(t *testing.T, s server) any { return acquires(t, s, "") },
			func(t *testing.T, got any) { assert.InDelta(t, time.Now().UnixMicro(), got, 60e6) },
		},
		"acquire: a token and those reserved": {
			nil,
			func(t *testing.T, s server) any { return acquires(t, s, "+") },
			func(t *testing.T, got any) {
				require.Len(t, got, 2)
				assert.InDelta(t, time.Now().UnixMicro(), got.(list)[0], 60e6)
				assert.Equal(t, int64(10_000), got.(list)[1])
			},
		},
		"propose: a token and those reserved": {
			nil,
			func(t *testing.T, s server) any { return proposes(t, s, at, "5") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(8e15), int64(5)}, got) },
		},
		"acquire: the owner has it": {
			[]func(*testing.T, server){gives("SET", x, value("a"), "PX", "5000")},
			func(t *testing.T, s server) any { return acquires(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, int64(8e15), got) },
		},
		"acquire: another has it": {
			[]func(*testing.T, server){gives("SET", x, value("b"), "PX", "5000")},
			func(t *testing.T, s server) any { return acquires(t, s, "") },
			func(t *testing.T, got any) {
				require.Len(t, got, 3)
				assert.Equal(t, value("b"), got.(list)[0])
				assert.InDelta(t, 5000, got.(list)[1], 1000)
				assert.InDelta(t, time.Now().UnixMicro(), got.(list)[2], 60e6)
			},
		},
		"acquire: another has it for ever": {
			[]func(*testing.T, server){gives("SET", x, value("b"))},
			func(t *testing.T, s server) any { return acquires(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, int64(-1), got.(list)[1]) },
		},
		"acquire: and the place is in line": {
			[]func(*testing.T, server){gives("SET", x, value("b"), "PX", "5000")},
			func(t *testing.T, s server) any { return acquires(t, s, "77 "+place) },
			func(t *testing.T, got any) {
				require.Len(t, got, 4)
				assert.Equal(t, int64(77), got.(list)[3])
			},
		},
		"acquire: it is kept for this place": {
			[]func(*testing.T, server){
				gives("SET", x, owner("a")+"\n0\n7\n"+holder+"\n+", "PX", "90000"), gives("SET", mark, at),
			},
			func(t *testing.T, s server) any { return acquires(t, s, "77 "+place) },
			func(t *testing.T, got any) { assert.Equal(t, int64(8e15+1), got) },
		},
		"acquire: it was granted to another caller": {
			[]func(*testing.T, server){gives("SET", x, value("a")+"\n+", "PX", "90000")},
			func(t *testing.T, s server) any {
				got := s.runs(t, "acquire.lua", []string{x}, append(claims[:5:5], "77 "+place, holder+"2")...)
				assert.Equal(t, value("a")+"2\n+", s.get(t, x), "whose operation is shown")
				return got
			},
			func(t *testing.T, got any) { assert.Equal(t, int64(8e15), got) },
		},
		"propose: the token is not above the counter": {
			[]func(*testing.T, server){gives("SET", counter, at)},
			func(t *testing.T, s server) any { return proposes(t, s, "7", "0") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(8e15)}, got) },
		},
		"propose: nor above the mark, without a counter": {
			[]func(*testing.T, server){gives("SET", mark, at)},
			func(t *testing.T, s server) any { return proposes(t, s, "7", "0") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(8e15)}, got) },
		},
		"renew: the exceptions": {
			[]func(*testing.T, server){gives("SET", y, value("b"), "PX", "5000")},
			func(t *testing.T, s server) any { return renews(t, s) },
			func(t *testing.T, got any) {
				assert.Equal(t, list{int64(-1), int64(2), value("b")}, got)
			},
		},
		"renew: what others have put there": {
			[]func(*testing.T, server){
				gives("SET", x, strings.Repeat("x", 301)), gives("RPUSH", y, "x"),
			},
			func(t *testing.T, s server) any { return renews(t, s) },
			func(t *testing.T, got any) {
				assert.Equal(t, list{int64(1), strings.Repeat("x", 300), int64(2), ""}, got)
			},
		},
		"renew: none": {
			[]func(*testing.T, server){
				gives("SET", x, value("a"), "PX", "5000"), gives("SET", y, value("a"), "PX", "5000"),
			},
			func(t *testing.T, s server) any { return renews(t, s) },
			func(t *testing.T, got any) { assert.Equal(t, list{}, got) },
		},
		"release: freed": {
			[]func(*testing.T, server){gives("SET", x, value("a"), "PX", "5000")},
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{}, got) },
		},
		"release: another's": {
			[]func(*testing.T, server){gives("SET", x, value("b"), "PX", "5000")},
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(1), value("b")}, got) },
		},
		"release: of another type": {
			[]func(*testing.T, server){gives("RPUSH", x, "x")},
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(1), ""}, got) },
		},
		"release: no one's": {
			nil,
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(-1)}, got) },
		},
		"release: granted on": {
			[]func(*testing.T, server){
				hears(inbox), gives("SET", x, value("a")+"\n+", "PX", "5000"),
				gives("ZADD", x+":waiters", "1", place),
			},
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{"1 2000"}, got) },
		},
		"release: kept, as tokens are given here": {
			[]func(*testing.T, server){
				gives("SET", mark, "g7"), gives("SET", x, value("a")+"\n+", "PX", "5000"),
				gives("ZADD", x+":waiters", "1", place),
			},
			func(t *testing.T, s server) any { return s.tells(t, inbox, x, "5", releases) },
			func(t *testing.T, got any) { assert.Equal(t, list{"1 2000"}, got) },
		},
		"release: kept, as the mark is far ahead": {
			[]func(*testing.T, server){
				gives("SET", mark, at), gives("SET", x, value("a")+"\n+", "PX", "5000"),
				gives("ZADD", x+":waiters", "1", place),
			},
			func(t *testing.T, s server) any { return s.tells(t, inbox, x, "5", releases) },
			func(t *testing.T, got any) { assert.Equal(t, list{"1 2000"}, got) },
		},
		"release: kept for one that is to ask": {
			[]func(*testing.T, server){
				gives("SET", x, value("a")+"\n+", "PX", "5000"),
				gives("ZADD", x+":waiters", "1", strings.Replace(place, "\n", " \n", 1)),
			},
			func(t *testing.T, s server) any { return s.tells(t, inbox, x, "5", releases) },
			func(t *testing.T, got any) { assert.Equal(t, list{"1 2000"}, got) },
		},
		"release: freed, and not waited for": {
			[]func(*testing.T, server){
				hears(inbox), gives("SET", x, value("a"), "PX", "5000"),
				gives("ZADD", x+":waiters", "1", place),
			},
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{}, got) },
		},
		"release: no one's, and granted on": {
			[]func(*testing.T, server){hears(inbox), gives("ZADD", x+":waiters", "1", place)},
			func(t *testing.T, s server) any { return releases(t, s, "") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(-1), "1 2000"}, got) },
		},
		"release: the place leaves that it was granted to": {
			[]func(*testing.T, server){
				hears(inbox), gives("SET", x, value("a")+"\n+", "PX", "90000"),
				gives("ZADD", x+":waiters", "1", member(6, inbox, "b", time.Second)),
			},
			func(t *testing.T, s server) any { return releases(t, s, " "+place) },
			func(t *testing.T, got any) { assert.Equal(t, list{"1 1000"}, got) },
		},
		"release: the place leaves, known by its number only": {
			[]func(*testing.T, server){
				gives("SET", x, value("b")+"\n+", "PX", "90000"), gives("ZADD", x+":waiters", "1", place,
					"2", member(55, inbox, "c", time.Second)),
			},
			func(t *testing.T, s server) any { return releases(t, s, " 5 "+inbox+" ") },
			func(t *testing.T, got any) { assert.Equal(t, list{int64(1), value("b") + "\n+"}, got) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withRedis(t, func(t *testing.T, s server) {
				for _, f := range c.before {
					f(t, s)
				}
				c.want(t, c.run(t, s))
			})
		})
	}
}

// A claim beside another one in one call: the counter of its name is ahead of
// the clock.
func TestABatchBesideACounterThatIsAhead(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
		y, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "y")
		const at, holder = "8000000000000000", "node\n1\nop"
		s.ok(t, "SET", counter, at, "PX", "60000")
		s.ok(t, "SET", redisstore.MarkKey(redisstore.DefaultPrefix), "g7")
		got := s.runs(t, "acquire.lua", []string{x, y}, "60000", "90000",
			redisstore.MarkKey(redisstore.DefaultPrefix), "line 60000 in-box_1",
			owner("a"), "", holder, owner("b"), " "+member(5, "in-box_1", "b", time.Second), holder)
		require.Len(t, got, 2)
		assert.Less(t, got.([]any)[0], int64(8e15))
		assert.Equal(t, int64(8e15+1), got.([]any)[1])
		assert.Equal(t, int64(8e15+1), s.number(t, "GET", counter))
	})
}

// A lock that stays held for a time after its release is shorter than those in
// line were told.
func TestAReleaseThatIsPutOffTellsThoseInLine(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
		const inbox = "in-box_1"
		heard := s.listen(t, redisstore.DefaultPrefix+"{"+inbox+"}:inbox")
		freed := s.listen(t, x+":freed")
		s.ok(t, "SET", x, owner("a")+"\n7\n7\nnode\n1\nop\n+", "PX", "60000")
		s.ok(t, "ZADD", x+":waiters", "1", "5 "+inbox+" 1000", "2", "6 nobody 1000",
			"3", "7 "+inbox+" 1000")
		got := s.runs(t, "release.lua", []string{x}, "500", "line "+inbox+" 90000 mark", owner("a"))
		assert.Equal(t, []any{}, got)
		assert.Equal(t, "5", <-heard)
		assert.Equal(t, "7", <-heard)
		assert.Equal(t, int64(2), s.number(t, "ZCARD", x+":waiters"), "but for the dead")
		s.ok(t, "DEL", x)
		got = s.runs(t, "renew.lua", []string{x}, "60000", owner("a"), "line")
		assert.Equal(t, []any{int64(-1)}, got)
		assert.Equal(t, "5", <-heard, "of a lease that is gone the first is told")
		s.ok(t, "PUBLISH", x+":freed", "end")
		assert.Equal(t, "end", <-freed, "and those who only listen to what is for all are not")
	})
}

// The look after a grant tells nobody while the lease is held; where it has
// lapsed, those in line, or all if there is no line.
func TestALookAfterAGrant(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		x := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
		freed := s.listen(t, x+":freed")
		nobody := strings.Repeat(" ", store.OwnerLen)
		looks := func() any {
			return s.runs(t, "release.lua", []string{x}, "0", "line in-box_1 90000 mark", nobody)
		}
		value := owner("a") + "\n7\n7\nnode\n1\nop\n+"
		s.ok(t, "SET", x, value, "PX", "60000")
		assert.Equal(t, []any{int64(1), value}, looks())
		s.ok(t, "DEL", x)
		heard := s.listen(t, redisstore.DefaultPrefix+"{in-box_1}:inbox")
		s.ok(t, "ZADD", x+":waiters", "1", member(5, "dead", "b", time.Second), "2",
			member(6, "in-box_1", "c", time.Second), "3", member(7, "in-box_1", "d", time.Second))
		assert.Equal(t, []any{int64(-1)}, looks())
		assert.Equal(t, "6", <-heard)
		assert.Equal(t, "7", <-heard)
		assert.Zero(t, s.number(t, "EXISTS", x, x+":waiters"), "who asks first has it")
		s.ok(t, "PUBLISH", x+":freed", "after the look")
		assert.Equal(t, "after the look", <-freed)
		looks()
		assert.Empty(t, <-freed)
	})
}

// hears has a process listen to an inbox.
func hears(inbox string) func(t *testing.T, s server) {
	return func(t *testing.T, s server) {
		s.listen(t, redisstore.DefaultPrefix+"{"+inbox+"}:inbox")
	}
}

// tells releases a lease, and requires that the inbox hears of a place that is
// to ask, and that the lease is kept for it without a token.
func (s server) tells(
	t *testing.T, inbox, lease, place string, releases func(*testing.T, server, string) any,
) any {
	t.Helper()
	heard := s.listen(t, redisstore.DefaultPrefix+"{"+inbox+"}:inbox")
	got := releases(t, s, "")
	assert.Equal(t, place, <-heard)
	assert.Regexp(t, "^"+owner("a")+`\n0\n\d{16}\nnode-a\n42\ntest\n\+$`, s.get(t, lease))
	return got
}
