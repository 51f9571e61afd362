package schema_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func value(fence, since, holder string) string {
	return strings.Repeat("o", store.OwnerLen) + "\n" + fence + "\n" + since + "\n" + holder
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func withTrace(h store.Holder, trace string) store.Holder {
	h.Trace = trace
	return h
}

func TestValue(t *testing.T) {
	t.Parallel()
	web := store.Holder{Node: "web-1", PID: 4711, Operation: "email:send"}
	traced := withTrace(web, traceparent)
	long := strings.Repeat("é", 100)
	for name, c := range map[string]struct {
		value string
		want  store.Holder
		since int64
	}{
		"ours": {value("7", "5", schema.EncodeHolder(web)), web, 5},
		"with a trace": {
			value("7", "5", schema.EncodeHolder(web)+"\n"+traceparent),
			traced, 5,
		},
		"with further fields": {value("7", "5",
			schema.EncodeHolder(web)+"\n"+traceparent+"\nx"), traced, 5},
		"hostile trace": {
			value("7", "5",
				schema.EncodeHolder(web)+"\n\x1b[31m\r"+strings.Repeat("z", 10_000)[:3000]),
			withTrace(web, ("[31m" + strings.Repeat("z", 64))[:64]), 5,
		},
		"empty holder": {
			value("7", "5", schema.EncodeHolder(store.Holder{})),
			store.Holder{},
			5,
		},
		"punctuation": {
			value("7", "5",
				schema.EncodeHolder(store.Holder{Node: `a|b,"c"{d}%`})),
			store.Holder{Node: `a|b,"c"{d}%`},
			5,
		},
		"cut short": {value("7", "5", "web-1"), store.Holder{Node: "web-1"}, 5},
		"control bytes": {
			value("7", "5", "we\x1b[31mb\x00\n1\nop\r\t\u202e"),
			store.Holder{Node: "we[31mb", PID: 1, Operation: "op"},
			5,
		},
		"broken UTF-8": {
			value("7", "5", "a\xff\xfeb\n1\n"),
			store.Holder{Node: "ab", PID: 1},
			5,
		},
		"long": {
			value("7", "5", long+"\n1\n"+long),
			store.Holder{Node: long[:64], PID: 1, Operation: long[:64]},
			5,
		},
		"odd PID": {
			value("7", "5", "a\n-4\nb"),
			store.Holder{Node: "a", Operation: "b"},
			5,
		},
		"huge PID": {
			value("7", "5", "a\n99999999999999999999\nb"),
			store.Holder{Node: "a", Operation: "b"},
			5,
		},
		"empty":            {"", store.Holder{}, 0},
		"somebody else's":  {"somebody else", store.Holder{}, 0},
		"short owner":      {"abc\n7\n5\nweb-1\n1\nop", store.Holder{}, 0},
		"no fence":         {value("", "5", "web-1\n1\nop"), store.Holder{}, 0},
		"fence of letters": {value("x", "5", "web-1\n1\nop"), store.Holder{}, 0},
		"negative time":    {value("7", "-5", "web-1\n1\nop"), store.Holder{}, 0},
		"too great a time": {
			value("7", strconv.FormatInt(schema.MaxExact+1, 10), "web-1\n1\nop"),
			store.Holder{},
			0,
		},
		"megabytes": {
			value("7", "5", "web-1\n1\nop"+strings.Repeat("x", 1<<21)),
			store.Holder{},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, since := schema.DecodeValue(c.value)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.since, since)
		})
	}
}

func checkPart(t *testing.T, s string) {
	t.Helper()
	require.LessOrEqual(t, len(s), schema.MaxPart)
	require.True(t, utf8.ValidString(s))
	require.False(t, strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r)
	}), "%q", s)
}

func FuzzDecodeValue(f *testing.F) {
	f.Add("")
	f.Add(value("7", "5", "web-1\n4711\nemail:send"))
	f.Add(value("7", "5", "\x1b\xff\n-1\n"+strings.Repeat("é", 99)+"\nmore"))
	f.Add(strings.Repeat("\n", 30))
	f.Fuzz(func(t *testing.T, text string) {
		h, since := schema.DecodeValue(text)
		checkPart(t, h.Node)
		checkPart(t, h.Operation)
		checkPart(t, h.Trace)
		require.GreaterOrEqual(t, h.PID, 0)
		require.GreaterOrEqual(t, since, int64(0))
		require.LessOrEqual(t, since, int64(schema.MaxExact))
	})
}

func FuzzHolder(f *testing.F) {
	f.Add("web-1", 4711, "email:send")
	f.Add("a\nb", -1, "c\x00")
	f.Fuzz(func(t *testing.T, node string, pid int, operation string) {
		once, _ := schema.DecodeValue(value("7", "5",
			schema.EncodeHolder(store.Holder{Node: node, PID: pid, Operation: operation})))
		checkPart(t, once.Node)
		checkPart(t, once.Operation)
		twice, _ := schema.DecodeValue(value("7", "5", schema.EncodeHolder(once)))
		require.Equal(t, once, twice, "what is printable and short is kept")
	})
}
