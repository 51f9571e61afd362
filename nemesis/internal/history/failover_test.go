package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

const ttl = time.Second

// Beliefs at the same time around a fail-over from X to Y at 100: a has the lock from 1 on, b from
// 200 to 5000.
func TestAFailOverIsBounded(t *testing.T) {
	t.Parallel()
	over := func(w history.Window) []history.Window {
		w.From, w.FailOver = 100*ms, true
		w.To = max(w.To, 9000*ms)
		return []history.Window{w}
	}
	hole, refusing := over(history.Window{}), over(history.Window{Refused: 500 * ms})
	forgets := append(over(history.Window{}), void(100, 9000).Excused...)
	for name, c := range map[string]struct {
		a, b    []any // which primary each client was told of, and when
		end     int64 // of a's belief
		windows []history.Window
		broken  bool
		unheard int
		longest int64 // in ms, from when both were told
	}{
		"a TTL after the first was told": {
			a: []any{300, "Y"}, b: []any{150, "Y"}, end: 1300, windows: hole, longest: 1000,
		},
		"more than a TTL after the first was told": {
			a: []any{300, "Y"}, b: []any{150, "Y"}, end: 1301, windows: hole, broken: true,
		},
		"less than a TTL after the second was told": {
			a: []any{150, "Y"}, b: []any{900, "Y"}, end: 1600, windows: hole, longest: 700,
		},
		"more than a TTL, and then told of X again": {
			a: []any{300, "Y", 1350, "X"}, b: []any{150, "Y"}, end: 1400, windows: hole, broken: true,
		},
		"told of Y anew": {
			a: []any{150, "Y", 300, "X", 900, "Y"}, b: []any{150, "Y"}, end: 1500, windows: hole,
			longest: 600,
		},
		"never told":                   {b: []any{150, "Y"}, end: 4000, windows: hole, unheard: 1},
		"both with the former primary": {end: 1500, windows: hole, broken: true},
		"never told, a TTL after the former primary refused to write": {
			b: []any{150, "Y"}, end: 1500, windows: refusing, unheard: 1,
		},
		"never told, more than a TTL after the former primary refused to write": {
			b: []any{150, "Y"}, end: 1501, windows: refusing, broken: true,
		},
		"beside a fault that forgets": {
			a: []any{300, "Y"}, b: []any{150, "Y"}, end: 4000, windows: forgets,
		},
		"after the fail-over": {
			a: []any{150, "Y"}, b: []any{150, "Y"}, end: 400, broken: true,
			windows: []history.Window{{From: 50 * ms, To: 100 * ms, FailOver: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := process("a"), process("b")
			a.heard(append([]any{0, "X"}, c.a...)...)
			b.heard(append([]any{0, "X"}, c.b...)...)
			a.freed(a.got("A", "x", 10, 0, 1, 9000), c.end, c.end+1)
			b.freed(b.got("B", "x", 20, 190, 200, 9000), 5000, 5001)
			r := history.Judge(history.Run{
				Processes: told(a, b), Excused: c.windows, TTL: ttl, Margin: margin, Request: request,
			})
			if c.broken {
				assert.Contains(t, rulesOf(r), "exclusion")
				return
			}
			assert.Empty(t, r.Violations)
			assert.Equal(t, 1, r.Overlaps)
			assert.Equal(t, c.unheard, r.Unheard)
			assert.Equal(t, c.longest, r.Told.Milliseconds())
		})
	}
}

// What is seen on a former primary, by the client of a process that was told of X at 0 and of Y at
// 1000.
func TestLeasesOnAFormerPrimary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at      int64
		who     string
		refused int64
		broken  bool
		former  history.Former
	}{
		"before it was told": {at: 900, who: "a", former: history.Former{Unheard: 1}},
		"a TTL and a request after it was told": {
			at: 2100, who: "a", former: history.Former{Leases: 1, Longest: 1100 * time.Millisecond},
		},
		"longer after it was told": {
			at: 2101, who: "a", former: history.Former{Leases: 1, Longest: 1101 * time.Millisecond},
			broken: true,
		},
		"a TTL after it refused to write": {
			at: 1500, who: "deaf", refused: 500, former: history.Former{Unheard: 1, Refused: ttl},
		},
		"longer after it refused to write": {
			at: 1502, who: "deaf", refused: 500, broken: true,
			former: history.Former{Unheard: 1, Refused: ttl + 2*time.Millisecond},
		},
		"of nobody": {at: 900, who: "b", broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, deaf := process("a"), process("deaf")
			a.heard(0, "X", 1000, "Y")
			deaf.heard(0, "X")
			c.former.FailOvers = 1
			r := history.Judge(history.Run{
				Processes: told(a, deaf), TTL: ttl, Margin: margin, Request: request,
				FailOvers: []history.FailOver{{
					Former: "X", Refused: c.refused * ms,
					Seen: []history.Sight{{At: c.at * ms, Process: c.who}},
				}},
			})
			assert.Equal(t, c.broken, len(r.Violations) == 1, r.Violations)
			assert.Equal(t, c.former, r.Former)
		})
	}
}
