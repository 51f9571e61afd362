package redisstore_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Short names for the parts of replies.
var (
	number, text, fault = redisreply.Number, redisreply.Text, redisreply.Fault
	null, list          = redisreply.Null, redisreply.List
)

func TestReadGrant(t *testing.T) {
	t.Parallel()
	theirs := value("7", "1000", "web-1\n4711\nop")
	holder := store.Holder{Node: "web-1", PID: 4711, Operation: "op"}
	for name, c := range map[string]struct {
		reply redisreply.Reply
		want  store.Grant // zero: refused
	}{
		"granted": {number(7), store.Grant{Status: store.StatusHeld, Fence: 7}},
		"greatest fence": {
			number(redisstore.MaxExact),
			store.Grant{Status: store.StatusHeld, Fence: redisstore.MaxExact},
		},
		"fence too great": {number(redisstore.MaxExact + 1), store.Grant{}},
		"fence 0":         {number(0), store.Grant{}},
		"fence below 0":   {number(-7), store.Grant{}},
		"taken": {
			list(text(theirs), number(1500), number(3000)),
			store.Grant{
				Status: store.StatusTaken, Holder: holder, TTL: 1500 * time.Millisecond,
				HeldFor: 2 * time.Millisecond,
			},
		},
		"taken, no TTL": {
			list(text("x"), number(-1), number(3000)),
			store.Grant{Status: store.StatusTaken, Foreign: true},
		},
		"taken, last ms": {
			list(text("x"), number(0), number(3000)),
			store.Grant{Status: store.StatusTaken, Foreign: true, TTL: time.Millisecond},
		},
		"an empty value": {
			list(text(""), number(0), number(3000)),
			store.Grant{Status: store.StatusTaken, Foreign: true, TTL: time.Millisecond},
		},
		"taken, endless TTL": {
			list(text("x"), number(math.MaxInt64), number(3000)),
			store.Grant{Status: store.StatusTaken, Foreign: true},
		},
		"taken, clock set back": {
			list(text(theirs), number(5), number(10)),
			store.Grant{Status: store.StatusTaken, Holder: holder, TTL: 5 * time.Millisecond},
		},
		"taken, mad clock": {
			list(text(theirs), number(5), number(math.MaxInt64)),
			store.Grant{Status: store.StatusTaken, Holder: holder, TTL: 5 * time.Millisecond},
		},
		"a number as text":   {text("7"), store.Grant{}},
		"nil":                {null(), store.Grant{}},
		"an error":           {fault("ERR x"), store.Grant{}},
		"an empty array":     {list(), store.Grant{}},
		"a counter, unasked": {list(number(7)), store.Grant{}},
		"two parts":          {list(text("x"), number(5)), store.Grant{}},
		"with tokens reserved": {
			list(number(7), number(5)),
			store.Grant{Status: store.StatusHeld, Fence: 7, Reserved: 5},
		},
		"fewer reserved": {
			list(number(7), number(1)),
			store.Grant{Status: store.StatusHeld, Fence: 7, Reserved: 1},
		},
		"none reserved": {
			list(number(7), number(0)),
			store.Grant{Status: store.StatusHeld, Fence: 7},
		},
		"more reserved":       {list(number(7), number(store.MaxReserved+1)), store.Grant{}},
		"reserved below 0":    {list(number(7), number(-1)), store.Grant{}},
		"too great a reserve": {list(number(redisstore.MaxExact-1), number(2)), store.Grant{}},
		"text for a reserve":  {list(number(7), text("5")), store.Grant{}},
		"a place of no time": {
			list(text("x"), number(5), number(5), number(0)),
			store.Grant{},
		},
		"five parts": {
			list(text("x"), number(5), number(5), number(5), number(5)),
			store.Grant{},
		},
		"nil for a value":        {list(null(), number(5), number(5)), store.Grant{}},
		"an error for a value":   {list(fault("ERR"), number(5), number(5)), store.Grant{}},
		"a number for a value":   {list(number(5), number(5), number(5)), store.Grant{}},
		"text for a TTL":         {list(text("x"), text("5"), number(5)), store.Grant{}},
		"an array for the clock": {list(text("x"), number(5), list(number(5))), store.Grant{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, since, ok := redisstore.ReadGrant(c.reply.Message(t), 0)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want != store.Grant{}, ok)
			assert.Zero(t, since)
		})
	}
}

// A token was proposed: 7.
func TestReadGrantOfAProposal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply redisreply.Reply
		want  store.Grant // zero: refused
	}{
		"granted":       {number(7), store.Grant{Status: store.StatusHeld, Fence: 7}},
		"another token": {number(8), store.Grant{}},
		"behind": {
			list(number(7)),
			store.Grant{Status: store.StatusBehind, Fence: 7},
		},
		"far behind": {
			list(number(redisstore.MaxExact)),
			store.Grant{Status: store.StatusBehind, Fence: redisstore.MaxExact},
		},
		"above the counter": {list(number(6)), store.Grant{}},
		"mad counter":       {list(number(redisstore.MaxExact + 1)), store.Grant{}},
		"text for it":       {list(text("7")), store.Grant{}},
		"taken": {
			list(text("x"), number(-1), number(3000)),
			store.Grant{Status: store.StatusTaken, Foreign: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, since, ok := redisstore.ReadGrant(c.reply.Message(t), 7)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want != store.Grant{}, ok)
			assert.Zero(t, since)
		})
	}
}

func TestReadAnswers(t *testing.T) {
	t.Parallel()
	const mine, taken, gone = store.StatusHeld, store.StatusTaken, store.StatusGone
	for name, c := range map[string]struct {
		reply redisreply.Reply
		want  []store.Status // nil: refused
	}{
		"all ours":  {list(), []store.Status{mine, mine, mine}},
		"one taken": {list(number(2), text("x")), []store.Status{mine, taken, mine}},
		"one gone":  {list(number(-3)), []store.Status{mine, mine, gone}},
		"all lost": {
			list(number(-1), number(2), text(""), number(-3)),
			[]store.Status{gone, taken, gone},
		},
		"taken, and a turn": {
			list(number(2), text("3 1000"), text("3 1000")), []store.Status{mine, taken, mine},
		},
		"taken by nothing":  {list(number(2)), nil},
		"taken by a number": {list(number(2), number(3)), nil},
		"gone, and a value": {list(number(-2), text("x")), nil},
		"position 0":        {list(number(0)), nil},
		"beyond the end":    {list(number(4)), nil},
		"before the end":    {list(number(-4)), nil},
		"smallest":          {list(number(math.MinInt64)), nil},
		"twice":             {list(number(2), text("x"), number(-2)), nil},
		"out of order":      {list(number(-2), number(-1)), nil},
		"too many":          {list(number(-1), number(-2), number(-3), number(-4)), nil},
		"one a turn now":    {list(text("3 1000")), []store.Status{mine, mine, mine}},
		"both":              {list(number(-1), text("2 1000")), []store.Status{gone, mine, mine}},
		"a turn first":      {list(text("2 1000"), number(-1)), nil},
		"another's turn":    {list(text("4 1000")), nil},
		"turn 0":            {list(text("0 1000")), nil},
		"an endless one":    {list(text("1 4294967296")), nil},
		"text":              {list(text("1")), nil},
		"an error":          {list(fault("ERR x")), nil},
		"nil":               {null(), nil},
		"a number":          {number(1), nil},
		"nested":            {list(list(number(1))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := make([]store.Answer, 3)
			_, ok := redisstore.ReadAnswers(c.reply.Message(t), answers)
			assert.Equal(t, c.want != nil, ok)
			for i, a := range answers {
				var want store.Status
				if ok {
					want = c.want[i]
				}
				assert.Equal(t,
					store.Answer{Status: want, Foreign: want == store.StatusTaken}, a)
			}
		})
	}
}

// Who has a lease that is taken is read from the key's value.
func TestReadTaker(t *testing.T) {
	t.Parallel()
	holder := store.Holder{Node: "web-2", PID: 7, Operation: "transfer"}
	value := owner("b") + "\n5\n1700000000123456\nweb-2\n7\ntransfer"
	for name, c := range map[string]struct {
		value string
		want  store.Answer
	}{
		"an owner":        {value, store.Answer{Holder: &holder}},
		"another program": {"x", store.Answer{Foreign: true}},
		"another type":    {"", store.Answer{Foreign: true}},
		"half a value":    {value[:30], store.Answer{Foreign: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := make([]store.Answer, 1)
			_, ok := redisstore.ReadAnswers(list(number(1), text(c.value)).Message(t), answers)
			require.True(t, ok)
			c.want.Status = store.StatusTaken
			require.Equal(t, c.want, answers[0])
		})
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, 7, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{51, 49, 'a', 'b', 'c', 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Add([]byte{27, 0, 1, 0, 0, 0, 0, 0, 0, 0})
	seen := "\x51\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x13x" +
		"\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\x00\x00"
	f.Add([]byte("\x21\x05" + seen))
	f.Add([]byte("\x21\x00\x09\x00\x00\x00\x00\x00\x00\x00" + seen))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, _ := redisreply.Any(raw)
		m := w.Message(t)
		_, _, _ = redisstore.ReadGrant(m, 7)
		g, _, ok := redisstore.ReadGrant(m, 0)
		switch {
		case !ok:
			require.Equal(t, store.StatusUnknown, g.Status)
		case g.Status == store.StatusHeld:
			require.False(t, m.IsInt64() && g.Reserved != 0)
			require.Positive(t, g.Fence)
		default:
			require.Equal(t, store.StatusTaken, g.Status)
			require.GreaterOrEqual(t, g.TTL, time.Duration(0))
			require.GreaterOrEqual(t, g.HeldFor, time.Duration(0))
			checkPart(t, g.Holder.Node)
		}
		answers := make([]store.Answer, 5)
		_, ok = redisstore.ReadAnswers(m, answers)
		for _, a := range answers {
			require.Equal(t, ok, a.Status != store.StatusUnknown)
		}
	})
}

// value is a lease of owner o.
func value(fence, since, holder string) string {
	return owner("o") + "\n" + fence + "\n" + since + "\n" + holder
}

func checkPart(t *testing.T, s string) {
	t.Helper()
	require.LessOrEqual(t, len(s), redisstore.MaxPart)
	require.True(t, utf8.ValidString(s))
	require.False(t, strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r)
	}), "%q", s)
}
