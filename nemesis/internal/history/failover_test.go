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
	const failedOver = 100
	hole := history.Window{
		From: failedOver * ms, To: 9000 * ms, What: "a fail-over",
		FailOver: true,
	}
	refusing := hole
	refusing.Refused = 500 * ms
	forgetting := history.Window{From: failedOver * ms, To: 9000 * ms, What: "FLUSHALL"}
	for name, c := range map[string]struct {
		hear    func(a, b *script) // when each client was told of Y
		over    int64              // when a's belief ends
		windows []history.Window
		broken  bool
		unheard int
		longest time.Duration // from when both were told
	}{
		"a TTL after the first was told": {
			hear: func(a, b *script) { a.heard("Y", 300); b.heard("Y", 150) },
			over: 1300, windows: []history.Window{hole}, longest: ttl,
		},
		"more than a TTL after the first was told": {
			hear: func(a, b *script) { a.heard("Y", 300); b.heard("Y", 150) },
			over: 1301, windows: []history.Window{hole}, broken: true,
		},
		"less than a TTL after the second was told": {
			hear: func(a, b *script) { a.heard("Y", 150); b.heard("Y", 900) },
			over: 1600, windows: []history.Window{hole}, longest: 700 * time.Millisecond,
		},
		"more than a TTL, and then told of X again": {
			hear: func(a, b *script) { a.heard("Y", 300); b.heard("Y", 150); a.heard("X", 1350) },
			over: 1400, windows: []history.Window{hole}, broken: true,
		},
		"told of Y anew": {
			hear: func(a, b *script) {
				a.heard("Y", 150)
				b.heard("Y", 150)
				a.heard("X", 300)
				a.heard("Y", 900)
			},
			over: 1500, windows: []history.Window{hole}, longest: 600 * time.Millisecond,
		},
		"never told": {
			hear: func(_, b *script) { b.heard("Y", 150) },
			over: 4000, windows: []history.Window{hole}, unheard: 1,
		},
		"both with the former primary": {
			hear: func(_, _ *script) {},
			over: 1500, windows: []history.Window{hole}, broken: true,
		},
		"never told, a TTL after the former primary refused to write": {
			hear: func(_, b *script) { b.heard("Y", 150) },
			over: 1500, windows: []history.Window{refusing}, unheard: 1,
		},
		"never told, more than a TTL after the former primary refused to write": {
			hear: func(_, b *script) { b.heard("Y", 150) },
			over: 1501, windows: []history.Window{refusing}, broken: true,
		},
		"beside a fault that forgets": {
			hear: func(a, b *script) { a.heard("Y", 300); b.heard("Y", 150) },
			over: 4000, windows: []history.Window{hole, forgetting},
		},
		"after the fail-over": {
			hear: func(a, b *script) { a.heard("Y", 150); b.heard("Y", 150) },
			over: 400, windows: []history.Window{
				{From: 50 * ms, To: failedOver * ms, FailOver: true},
			}, broken: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := process("a"), process("b")
			a.heard("X", 0)
			b.heard("X", 0)
			c.hear(a, b)
			a.freed(a.got("A", "x", 10, 0, 1, 9000), c.over, c.over+1)
			b.freed(b.got("B", "x", 20, 190, 200, 9000), 5000, 5001)
			r := history.Judge(history.Run{
				Processes: told(a, b), Excused: c.windows, TTL: ttl,
				Margin: margin, Request: request,
			})
			if c.broken {
				assert.Contains(t, rulesOf(r), "exclusion")
				return
			}
			assert.Empty(t, r.Violations)
			assert.Equal(t, 1, r.Overlaps)
			assert.Equal(t, c.unheard, r.Unheard)
			assert.Equal(t, c.longest, r.Told)
		})
	}
}

// What is seen on a former primary, by the client of a process that was told of X at 0 and of Y at
// 1000.
func TestLeasesOnAFormerPrimary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sight   history.Sight
		refused int64
		broken  bool
		former  history.Former
	}{
		"before it was told": {
			sight: history.Sight{At: 900 * ms, Process: "a"}, former: history.Former{Unheard: 1},
		},
		"a TTL and a request after it was told": {
			sight:  history.Sight{At: 2100 * ms, Process: "a"},
			former: history.Former{Leases: 1, Longest: 1100 * time.Millisecond},
		},
		"longer after it was told": {
			sight: history.Sight{At: 2101 * ms, Process: "a"}, broken: true,
			former: history.Former{Leases: 1, Longest: 1101 * time.Millisecond},
		},
		"a TTL after it refused to write": {
			sight: history.Sight{At: 1500 * ms, Process: "deaf"}, refused: 500 * ms,
			former: history.Former{Unheard: 1, Refused: ttl},
		},
		"longer after it refused to write": {
			sight: history.Sight{At: 1502 * ms, Process: "deaf"}, refused: 500 * ms, broken: true,
			former: history.Former{Unheard: 1, Refused: ttl + 2*time.Millisecond},
		},
		"of nobody": {sight: history.Sight{At: 900 * ms, Process: "b"}, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, deaf := process("a"), process("deaf")
			a.heard("X", 0)
			deaf.heard("X", 0)
			a.heard("Y", 1000)
			c.former.FailOvers = 1
			r := history.Judge(history.Run{
				Processes: told(a, deaf), TTL: ttl, Margin: margin, Request: request,
				FailOvers: []history.FailOver{
					{Former: "X", Refused: c.refused, Seen: []history.Sight{c.sight}},
				},
			})
			assert.Equal(t, c.broken, len(r.Violations) == 1, r.Violations)
			assert.Equal(t, c.former, r.Former)
		})
	}
}

func rulesOf(r history.Report) []string {
	var rules []string
	for _, v := range r.Violations {
		rules = append(rules, v.Rule)
	}
	return rules
}
