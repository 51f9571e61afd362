package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// figures of a process over a time, a second each: what it uses grows by so much in all.
func figures(p *script, over time.Duration, goroutines int, heap int64) {
	n := int64(over / time.Second)
	for i := range n {
		p.events = append(p.events, history.Event{
			Kind: history.Figures, At: i * int64(time.Second), Idle: 10,
			Goroutines: 100 + int(int64(goroutines)*i/n), Heap: 100<<20 + heap*i/n,
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		over       time.Duration
		goroutines int
		heap       int64
		rules      int
	}{
		"flat":                          {10 * time.Minute, 0, 0, 0},
		"a little more":                 {10 * time.Minute, 50, 10 << 20, 0},
		"goroutines leak":               {10 * time.Minute, 1000, 0, 1},
		"memory leaks":                  {10 * time.Minute, 0, 200 << 20, 1},
		"both":                          {10 * time.Minute, 1000, 200 << 20, 2},
		"too short a time to be judged": {time.Minute, 1000, 200 << 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := process("a")
			figures(a, c.over, c.goroutines, c.heap)
			report := history.Judge(history.Run{Processes: told(a), Idle: 10})
			assert.Len(t, report.Violations, c.rules, "%v", report.Violations)
			for _, v := range report.Violations {
				assert.Equal(t, "flat", v.Rule)
			}
			assert.Equal(t, 10, report.Usage.Idle)
		})
	}
}

func TestIdleLeasesAreMissed(t *testing.T) {
	t.Parallel()
	a, b := process("a"), process("b")
	figures(a, time.Minute, 0, 0)
	figures(b, time.Minute, 0, 0)
	b.killed(70_000)
	report := history.Judge(history.Run{Processes: told(a, b), Idle: 20})
	if assert.Len(t, report.Violations, 1) {
		assert.Equal(t, "progress: of 20 idle leases only 10 were held at the end",
			report.Violations[0].String())
	}
}

// A long history is searched in pieces: what is wrong is found wherever it is.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	const grants = 5000
	for _, wrong := range []int64{-1, 1, 1999, 2000, 2001, 3899, 3900, 4998} {
		a := process("a")
		for i := range int64(grants) {
			begin := 10 * i
			if i == wrong {
				begin -= 8 // before the one before has ended
			}
			a.freed(a.got("A", "x", 10*i+1, begin, begin+1, 1_000_000), begin+5, begin+6)
		}
		report := history.Judge(history.Run{Processes: told(a), Margin: margin, Request: request})
		var rules []string
		for _, v := range report.Violations {
			rules = append(rules, v.Rule)
		}
		if wrong < 0 {
			assert.Empty(t, rules)
			continue
		}
		assert.Contains(t, rules, "exclusion", wrong)
		assert.Contains(t, rules, "lock model", wrong)
	}
}
