package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// What a process uses grows by so much over a time. Of 20 idle leases it holds 10, and one that was
// killed the others.
func TestUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		over             time.Duration
		goroutines, heap int64
		rules            string
	}{
		"flat":                          {10 * time.Minute, 0, 0, ""},
		"a little more":                 {10 * time.Minute, 50, 10 << 20, ""},
		"goroutines leak":               {10 * time.Minute, 1000, 0, "flat"},
		"memory leaks":                  {10 * time.Minute, 0, 200 << 20, "flat"},
		"both":                          {10 * time.Minute, 1000, 200 << 20, "flat, flat"},
		"too short a time to be judged": {time.Minute, 1000, 200 << 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, dead := process("a"), process("b")
			n := int64(c.over / time.Second)
			for i := range n {
				e := history.Event{
					Kind: history.Figures, At: i * int64(time.Second), Idle: 10,
					Goroutines: 100 + int(c.goroutines*i/n), Heap: 100<<20 + c.heap*i/n,
				}
				a.events, dead.events = append(a.events, e), append(dead.events, e)
			}
			report := history.Judge(history.Run{Processes: told(a), Idle: 10})
			assert.Equal(t, c.rules, rulesOf(report), "%v", report.Violations)
			assert.Equal(t, 10, report.Usage.Idle)

			dead.killed(n * 1000)
			report = history.Judge(history.Run{Processes: told(a, dead), Idle: 20})
			assert.Equal(t, "progress: of 20 idle leases only 10 were held at the end",
				report.Violations[0].String())
		})
	}
}
