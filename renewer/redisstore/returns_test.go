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
	_, s := startReal(t)
	x, y := redisstore.LeaseKey(redisstore.DefaultPrefix, "x"),
		redisstore.LeaseKey(redisstore.DefaultPrefix, "y")
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)
	_, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "x")
	const at, inbox, holder, others = "8000000000000000", "in-box_1", "node\n1\nop", "\n7\nnode\n1\nop2"
	type list = []any
	value := func(letter string) string { return owner(letter) + "\n" + at + others }
	place := member(5, inbox, "a", 2*time.Second)

	claims := []string{"60000", "90000", mark, "line 60000 " + inbox, owner("a")}
	acquires := func(place string) func() any {
		return func() any {
			return s.runs(t, "acquire.lua", []string{x}, append(claims[:5:5], place, holder)...)
		}
	}
	proposes := func(token, reserve string) func() any {
		return func() any {
			return s.runs(t, "propose.lua", []string{x},
				append(claims[:5:5], "", holder, token, reserve)...)
		}
	}
	renews := func() any {
		return s.runs(t, "renew.lua", []string{x, y}, "60000", owner("a"), owner("a"), "line")
	}
	releases := func(rest string) func() any {
		return func() any {
			return s.runs(t, "release.lua", []string{x}, "0", "line "+inbox+" 90000 "+mark,
				owner("a")+rest)
		}
	}

	sets := func(key, value string) []string { return []string{"SET", key, value, "PX", "90000"} }
	waits := func(place string) []string { return []string{"ZADD", x + ":waiters", "1", place} }
	ours, theirs, awaited := sets(x, value("a")), sets(x, value("b")), sets(x, value("a")+"\n+")
	// The lease of a place whose claim was granted, and of one that is to ask, without a token.
	granted := owner("a") + `\n\d{16}\n\d{16}\nnode-a\n42\ntest\n\+`
	kept := strings.Replace(granted, `\d{16}`, "0", 1)
	const told = `5 aaaaaaaa \d+ \d+`

	heard := s.listen(t, redisstore.DefaultPrefix+"{"+inbox+"}:inbox")
	for name, c := range map[string]struct {
		before [][]string
		run    func() any
		want   any    // or a check of it
		hears  string // what the inbox hears
		lease  string // what the lease is then
	}{
		"acquire: a token": {
			before: [][]string{{"SET", mark, at}}, run: acquires(""), want: int64(8e15 + 1),
		},
		"acquire: a token of the server's clock": {run: acquires(""), want: now},
		"acquire: a token and those reserved": {run: acquires("+"), want: func(t *testing.T, got any) {
			require.Len(t, got, 2)
			now(t, got.(list)[0])
			assert.Equal(t, int64(10_000), got.(list)[1])
		}},
		"propose: a token and those reserved": {run: proposes(at, "5"), want: list{int64(8e15), int64(5)}},
		"acquire: the owner has it":           {before: [][]string{ours}, run: acquires(""), want: int64(8e15)},
		"acquire: another has it": {
			before: [][]string{theirs}, run: acquires(""), lease: value("b") + `\n\+`,
			want: func(t *testing.T, got any) {
				require.Len(t, got, 3)
				assert.Equal(t, value("b"), got.(list)[0])
				assert.InDelta(t, 90000, got.(list)[1], 10000)
				now(t, got.(list)[2])
			},
		},
		"acquire: another has it for ever": {
			before: [][]string{{"SET", x, value("b")}}, run: acquires(""),
			want: func(t *testing.T, got any) { assert.Equal(t, int64(-1), got.(list)[1]) },
		},
		"acquire: and the place is in line": {
			before: [][]string{theirs}, run: acquires("77 " + place),
			want: func(t *testing.T, got any) {
				require.Len(t, got, 4)
				assert.Equal(t, int64(77), got.(list)[3])
			},
		},
		"acquire: it is kept for this place": {
			before: [][]string{sets(x, owner("a")+"\n0\n7\n"+holder+"\n+"), {"SET", mark, at}},
			run:    acquires("77 " + place), want: int64(8e15 + 1),
		},
		"acquire: it was granted to another caller, whose operation was shown": {
			before: [][]string{awaited}, run: acquires("77 " + place), want: int64(8e15),
			lease: owner("a") + "\n" + at + "\n7\n" + holder + `\n\+`,
		},
		"propose: the token is not above the counter": {
			before: [][]string{{"SET", counter, at}}, run: proposes("7", "0"), want: list{int64(8e15)},
		},
		"propose: nor above the mark, without a counter": {
			before: [][]string{{"SET", mark, at}}, run: proposes("7", "0"), want: list{int64(8e15)},
		},
		"renew: the exceptions": {
			before: [][]string{sets(y, value("b"))}, run: renews, want: list{int64(-1), int64(2), value("b")},
		},
		"renew: what others have put there": {
			before: [][]string{sets(x, strings.Repeat("x", 301)), {"RPUSH", y, "x"}}, run: renews,
			want: list{int64(1), strings.Repeat("x", 300), int64(2), ""},
		},
		"renew: none":        {before: [][]string{ours, sets(y, value("a"))}, run: renews, want: list{}},
		"release: freed":     {before: [][]string{ours}, run: releases(""), want: list{}},
		"release: another's": {before: [][]string{theirs}, run: releases(""), want: list{int64(1), value("b")}},
		"release: of another type": {
			before: [][]string{{"RPUSH", x, "x"}}, run: releases(""), want: list{int64(1), ""},
		},
		"release: no one's": {run: releases(""), want: list{int64(-1)}},
		"release: granted on": {
			before: [][]string{awaited, waits(place)}, run: releases(""),
			want: list{"1 2000"}, hears: told, lease: granted,
		},
		"release: kept, as tokens are given here": {
			before: [][]string{{"SET", mark, "g7"}, awaited, waits(place)}, run: releases(""),
			want: list{"1 2000"}, hears: "5", lease: kept,
		},
		"release: kept, as the mark is far ahead": {
			before: [][]string{{"SET", mark, at}, awaited, waits(place)}, run: releases(""),
			want: list{"1 2000"}, hears: "5", lease: kept,
		},
		"release: kept for one that is to ask": {
			before: [][]string{awaited, waits(strings.Replace(place, "\n", " \n", 1))}, run: releases(""),
			want: list{"1 2000"}, hears: "5", lease: kept,
		},
		"release: freed, and not waited for": {
			before: [][]string{ours, waits(place)}, run: releases(""), want: list{},
		},
		"release: no one's, and granted on": {
			before: [][]string{waits(place)}, run: releases(""),
			want: list{int64(-1), "1 2000"}, hears: told, lease: granted,
		},
		"release: the place leaves that it was granted to": {
			before: [][]string{awaited, waits(member(6, inbox, "b", time.Second))},
			run:    releases(" " + place), want: list{"1 1000"}, hears: `6 bbbbbbbb \d+ \d+`,
		},
		"release: the place leaves, known by its number only": {
			before: [][]string{
				sets(x, value("b")+"\n+"), waits(place), waits(member(55, inbox, "c", time.Second)),
			},
			run: func() any {
				got := releases(" 5 " + inbox + " ")()
				assert.Equal(t, []string{member(55, inbox, "c", time.Second)},
					s.texts(t, "ZRANGE", x+":waiters", "0", "-1"))
				return got
			},
			want: list{int64(1), value("b") + "\n+"},
		},
	} {
		s.ok(t, "FLUSHALL")
		for _, command := range c.before {
			s.ok(t, command...)
		}
		got := c.run()
		if check, ok := c.want.(func(*testing.T, any)); ok {
			check(t, got)
		} else {
			assert.Equal(t, c.want, got, name)
		}
		if c.hears != "" {
			assert.Regexp(t, "^"+c.hears+"$", <-heard, name)
		}
		assert.Empty(t, heard, name)
		if c.lease != "" {
			assert.Regexp(t, "^"+c.lease, s.get(t, x), name)
		}
	}
}

// now requires the server's clock, in us.
func now(t *testing.T, got any) {
	t.Helper()
	assert.InDelta(t, time.Now().UnixMicro(), got, 60e6)
}

// A claim beside another one in one call: the counter of its name is ahead of
// the clock.
func TestABatchBesideACounterThatIsAhead(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
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
}

// A lock that stays held for a time after its release is shorter than those in
// line were told.
func TestAReleaseThatIsPutOffTellsThoseInLine(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
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
}

// The look after a grant tells nobody while the lease is held; where it has
// lapsed, those in line, or all if there is no line.
func TestALookAfterAGrant(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
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
}

// hears has a process listen to an inbox.
func hears(inbox string) func(t *testing.T, s server) {
	return func(t *testing.T, s server) {
		s.listen(t, redisstore.DefaultPrefix+"{"+inbox+"}:inbox")
	}
}
