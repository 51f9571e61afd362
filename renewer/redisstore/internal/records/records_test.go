package records_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/records"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Short names for the parts of replies.
var (
	number, text, fault = redisreply.Number, redisreply.Text, redisreply.Fault
	null, list          = redisreply.Null, redisreply.List
)

// FuzzRecordReplies gives the readers replies that no script of ours
// makes: nothing is believed of them.
func FuzzRecordReplies(f *testing.F) {
	f.Add([]byte{0, 7, 0, 0, 0, 0, 0, 0, 0}, int64(5))
	f.Add([]byte{51, 49, 'a', 'b', 'c', 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 9}, int64(0))
	f.Add([]byte{27, 0, 1, 0, 0, 0, 0, 0, 0, 0}, int64(5))
	f.Fuzz(func(t *testing.T, raw []byte, fence int64) {
		w, _ := redisreply.Any(raw)
		m := w.Message(t)
		seen, ok := records.ReadSeen(m, fence)
		switch {
		case !ok:
			require.Equal(t, store.Seen{}, seen)
		case seen.Status == store.StatusTaken:
			require.NotZero(t, fence, "who only looks is not refused")
			require.Equal(t, store.Seen{Status: store.StatusTaken}, seen)
		default:
			require.Equal(t, store.StatusHeld, seen.Status)
			require.GreaterOrEqual(t, seen.Fence, int64(0))
			require.GreaterOrEqual(t, seen.Seq, int64(0))
			require.NoError(t, seen.Err)
		}
		status, ok := records.ReadWritten(m)
		require.Equal(t, ok, status != store.StatusUnknown)
		if ok {
			require.True(t, m.IsInt64(), "only an integer says what was written")
		}
	})
}

func TestReadSeen(t *testing.T) {
	t.Parallel()
	const top, now int64 = schema.MaxExact, 1_700_000_000_123_456
	for name, c := range map[string]struct {
		fence int64
		reply redisreply.Reply
		want  store.Seen // zero: refused
	}{
		"a record": {
			7, list(number(3), number(4), text("x"), number(-1), number(now)),
			store.Seen{Status: store.StatusHeld, Fence: 3, Seq: 4, Data: "x", Now: time.UnixMicro(now)},
		},
		"none": {
			0, list(number(0), number(0), text(""), number(-2), number(now)),
			store.Seen{Status: store.StatusHeld, Now: time.UnixMicro(now)},
		},
		"a later holder":       {7, list(number(8)), store.Seen{Status: store.StatusTaken}},
		"the same, not later":  {7, list(number(7)), store.Seen{}},
		"later than possible":  {7, list(number(top + 1)), store.Seen{}},
		"refused, only a look": {0, list(number(8)), store.Seen{}},
		"text for a term":      {7, list(text("8")), store.Seen{}},
		"fence below 0": {
			7, list(number(-3), number(4), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"fence too great": {
			7, list(number(top+1), number(4), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"seq below 0": {
			7, list(number(3), number(-4), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"seq too great": {
			7, list(number(3), number(top+1), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"text for a fence": {
			7, list(text("3"), number(4), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"text for a seq": {
			7, list(number(3), text("4"), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"a number for data": {
			7, list(number(3), number(4), number(5), number(9), number(now)),
			store.Seen{},
		},
		"nil for data": {7, list(number(3), number(4), null(), number(9), number(now)), store.Seen{}},
		"an error for data": {
			7, list(number(3), number(4), fault("ERR x"), number(9), number(now)),
			store.Seen{},
		},
		"two parts": {7, list(number(3), number(4)), store.Seen{}},
		"four parts": {
			7, list(number(3), number(4), text("x"), number(-1)),
			store.Seen{},
		},
		"six parts": {
			7, list(number(3), number(4), text("x"), text("x"), number(-1), number(now)),
			store.Seen{},
		},
		"text for a time": {
			7, list(number(3), number(4), text("x"), number(-1), text("now")),
			store.Seen{},
		},
		"no time": {
			7, list(number(3), number(4), text("x"), number(-1), number(0)),
			store.Seen{},
		},
		"nothing":  {7, list(), store.Seen{}},
		"a number": {7, number(1), store.Seen{}},
		"nil":      {7, null(), store.Seen{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := records.ReadSeen(c.reply.Message(t), c.fence)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want != store.Seen{}, ok)
		})
	}
}

func TestReadWritten(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]store.Status{
		1: store.StatusHeld, 0: store.StatusTaken, -1: store.StatusGone,
		-2: store.StatusBehind, 2: 0, -3: 0,
	} {
		got, ok := records.ReadWritten(number(n).Message(t))
		assert.Equal(t, want, got, n)
		assert.Equal(t, want != store.StatusUnknown, ok, n)
	}
	for _, w := range []redisreply.Reply{text("1"), null(), list(number(1)), fault("ERR x")} {
		_, ok := records.ReadWritten(w.Message(t))
		assert.False(t, ok)
	}
}
