package history_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// Histories, and the rules that they break: none, or those named.
func TestJudge(t *testing.T) {
	t.Parallel()
	const granted = 1000 // a deadline that plays no part
	for name, c := range map[string]struct {
		play  func(a, b *script)
		run   history.Run
		rules string
	}{
		"one after the other": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 5, 8)
			b.freed(b.got("B", "x", 20, 0, 7, granted), 9, 10)
		}},
		"two names at once": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 5, 6)
			b.freed(b.got("B", "y", 10, 0, 1, granted), 5, 6)
		}},
		"handed over": {play: func(a, _ *script) {
			first := a.got("A", "x", 10, 0, 1, granted)
			a.at(first, history.Freeing, 5)
			next := a.handed("x", 11, 2, 6)
			a.at(first, history.Freed, 7)
			a.freed(next, 8, 9)
		}},
		"had before the other's release was called": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 5, 6)
			b.freed(b.got("B", "x", 20, 0, 4, granted), 9, 10)
		}, rules: "exclusion, order"},
		"had inside the other's time": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 50, 51)
			b.freed(b.got("B", "x", 20, 10, 11, granted), 12, 13)
		}, rules: "exclusion, order"},
		"had long after the other's neighbour ended": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 500, 501)
			b.freed(b.got("B", "x", 20, 10, 11, granted), 12, 13)
			b.freed(b.got("C", "x", 30, 400, 401, granted), 410, 420)
		}, rules: "exclusion, " + "exclusion, order"},
		"excused": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 50, 51)
			b.freed(b.got("B", "x", 20, 10, 11, granted), 12, 13)
		}, run: void(5, 60)},
		"forgotten before its acquire returned": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 40, granted), 50, 51)
			b.freed(b.got("B", "x", 20, 10, 11, granted), 12, 13)
		}, run: void(5, 60)},
		"had before its acquire returned": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 40, granted), 50, 51)
			b.freed(b.got("B", "x", 20, 10, 11, granted), 12, 13)
		}, rules: "order"},
		"excused by a fault that was over": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 50, 51)
			b.freed(b.got("B", "x", 20, 10, 11, granted), 12, 13)
		}, run: void(2, 9), rules: "exclusion"},
		"a late token": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 20, 0, 1, granted), 5, 6)
			b.freed(b.got("B", "x", 10, 7, 8, granted), 9, 10)
		}, rules: "order"},
		"a token twice": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 5, 6)
			b.freed(b.got("B", "x", 10, 4, 8, granted), 9, 10)
		}, rules: "token twice"},
		"a token that nobody granted": {play: func(a, _ *script) {
			a.freed(a.handed("x", 99, 0, 1), 5, 6)
		}, rules: "grant"},
		"killed, and had by another after the TTL": {play: func(a, b *script) {
			a.got("A", "x", 10, 0, 1, granted)
			a.killed(300)
			b.freed(b.got("B", "x", 20, 5, 1200, 2000), 1201, 1202)
		}},
		"killed, and had by another at once": {play: func(a, b *script) {
			a.got("A", "x", 10, 0, 1, granted)
			a.killed(300)
			b.freed(b.got("B", "x", 20, 5, 299, 2000), 301, 302)
		}, rules: "exclusion, order"},
		"frozen until after its deadline": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			b.freed(b.got("B", "x", 20, 5, 1200, 2500), 1300, 1301)
			a.paused(500, 2000)
			a.at(l, history.Over, 2001)
			a.freed(l, 2002, 2003)
		}},
		"frozen, and valid after its deadline": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			b.freed(b.got("B", "x", 20, 5, 1200, 2500), 2300, 2301)
			a.paused(500, 2000)
			a.at(l, history.Valid, 2000)
			a.at(l, history.Over, 2001)
			a.freed(l, 2002, 2003)
		}, rules: "deadline, exclusion, order"},
		"awake, and its context late": {play: func(a, _ *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.at(l, history.Over, 1170)
			a.freed(l, 1171, 1172)
		}, rules: "deadline"},
		"said to be valid for too long": {play: func(a, _ *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.events = append(a.events,
				history.Event{Kind: history.Valid, At: 5 * ms, Until: (granted + 5) * ms, Op: l})
			a.extended("A", 400, 1400)
			a.freed(l, 1171, 1172)
		}, rules: "deadline"},
		"extended": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.extended("A", 400, 1400)
			a.paused(500, 2000)
			b.freed(b.got("B", "x", 20, 5, 1399, 2500), 1450, 1451)
			a.at(l, history.Over, 2001)
			a.freed(l, 2002, 2003)
		}, rules: "exclusion, order"},
		"extended too late": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.paused(500, 2000)
			a.extended("A", 2000, 2400)
			b.freed(b.got("B", "x", 20, 5, 1399, 2500), 1450, 1451)
			a.at(l, history.Over, 2001)
			a.freed(l, 2002, 2003)
		}},
		"a release that failed": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.at(l, history.Freeing, 5)
			a.events = append(a.events,
				history.Event{Kind: history.Freed, At: 6 * ms, Op: l, Err: "unavailable"})
			b.freed(b.got("B", "x", 20, 500, 900, 2500), 950, 951)
		}},
		"as many as a limit allows": {play: func(a, b *script) {
			first := a.got("A", "x", 10, 0, 1, granted)
			b.freed(b.got("B", "x", 20, 0, 2, granted), 50, 51)
			a.freed(first, 10, 11)
			a.freed(a.got("C", "x", 30, 3, 12, granted), 40, 41)
		}, run: limitOf2},
		"one more than a limit allows": {play: func(a, b *script) {
			first := a.got("A", "x", 10, 0, 1, granted)
			b.freed(b.got("B", "x", 20, 0, 2, granted), 50, 51)
			a.freed(a.got("C", "x", 30, 3, 9, granted), 40, 41)
			a.freed(first, 10, 11)
		}, run: limitOf2, rules: "exclusion, order"},
		"one more, and excused": {play: func(a, b *script) {
			first := a.got("A", "x", 10, 0, 1, granted)
			b.freed(b.got("B", "x", 20, 0, 2, granted), 50, 51)
			a.freed(a.got("C", "x", 30, 3, 9, granted), 40, 41)
			a.freed(first, 10, 11)
		}, run: history.Run{Limits: limitOf2.Limits, Excused: void(0, 9).Excused}},
		"a slot that was freed is counted twice": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 10, 11)
			b.freed(b.got("B", "x", 20, 0, 2, granted), 50, 51)
			a.freed(a.got("C", "x", 30, 3, 12, granted), 40, 41)
			b.freed(b.got("D", "x", 40, 3, 13, granted), 41, 42)
		}, run: limitOf2, rules: "exclusion, order"},
		"a slot of one who was killed is had by another at once": {play: func(a, b *script) {
			a.got("A", "x", 10, 0, 1, granted)
			a.killed(300)
			b.freed(b.got("B", "x", 20, 0, 2, granted), 400, 401)
			b.freed(b.got("C", "x", 30, 3, 299, granted), 310, 311)
		}, run: limitOf2, rules: "exclusion, order"},
		"two slots of one token": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 50, 51)
			b.freed(b.got("B", "x", 10, 0, 2, granted), 50, 51)
		}, run: limitOf2, rules: "token twice"},
		"a late token of a limit": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 20, 0, 1, granted), 50, 51)
			b.freed(b.got("B", "x", 10, 7, 8, granted), 50, 51)
		}, run: limitOf2, rules: "order"},
		"a slot that many others were had beside": {play: func(a, _ *script) {
			long := a.got("A", "x", 10, 0, 1, granted)
			for i := range int64(100) {
				at := 2 + 2*i
				a.freed(a.got("B"+strconv.FormatInt(i, 10), "x", 11+i, at, at, granted), at+1, at+1)
			}
			a.extended("A", 900, 1900)
			a.freed(long, 1500, 1501)
		}, run: limitOf2},
		"an acquire that hung": {play: func(a, _ *script) {
			a.ask(1, "x", 0, 50)
			a.at(1, history.Not, 2000)
		}, rules: "bounded"},
		"an acquire that hung with its process": {play: func(a, _ *script) {
			a.ask(1, "x", 0, 50)
			a.paused(100, 1900)
			a.at(1, history.Not, 2000)
		}},
		"an acquire that waited": {play: func(a, _ *script) {
			a.ask(1, "x", 0, 500)
			a.at(1, history.Not, 550)
		}},
		"an acquire that waited for too long": {play: func(a, b *script) {
			a.ask(1, "x", 0, 1000)
			a.at(1, history.Not, 600)
			b.ask(1, "x", 0, 1000)
			b.at(1, history.Not, 500)
		}, run: history.Run{MostWait: 500 * time.Millisecond}, rules: "starved"},
		"an acquire that waited for long, in a process that did not run": {
			play: func(a, _ *script) {
				a.ask(1, "x", 0, 1000)
				a.paused(100, 200)
				a.paused(150, 250)
				a.at(1, history.Not, 600)
			}, run: history.Run{MostWait: 450 * time.Millisecond},
		},
		"broken, and had by another once its operation had returned": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			b.broke("x", 10, 3)
			a.at(l, history.Broken, 4)
			a.freed(l, 20, 21)
			b.freed(b.got("B", "x", 20, 2, 21, granted), 30, 31)
		}},
		"broken, and had by another while its operation ran": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			b.broke("x", 10, 3)
			a.at(l, history.Broken, 4)
			b.freed(b.got("B", "x", 20, 2, 10, granted), 30, 31)
			a.freed(l, 20, 21)
		}, rules: "exclusion, order"},
		"broken, and its operation ran on past its TTL": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.at(l, history.Broken, 4)
			b.freed(b.got("B", "x", 20, 2, granted+1, 2000), 1020, 1021)
			a.freed(l, 1500, 1501)
		}},
		"broken, and killed": {play: func(a, b *script) {
			a.at(a.got("A", "x", 10, 0, 1, granted), history.Broken, 4)
			b.freed(b.got("B", "x", 20, 2, granted+1, 2000), 1020, 1021)
			a.killed(300)
		}},
		"renewed while it was broken": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.renewed("A", 2, 5, granted+2)
			b.broke("x", 10, 3)
			a.freed(l, 20, 21)
		}},
		"renewed after it was broken": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			b.broke("x", 10, 3)
			b.broke("x", 10, 9)
			a.renewed("A", 4, 5, granted+4)
			a.freed(l, 20, 21)
		}, rules: "broken"},
		"renewed after it was broken and forgotten": {play: func(a, b *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			b.broke("x", 10, 3)
			a.renewed("A", 5, 6, granted+5)
			a.freed(l, 20, 21)
		}, run: void(4, 9)},
		"renewed after it was replaced": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 2, 3)
			l := a.got("B", "x", 20, 0, 5, granted)
			b.replaced("x", 4, 6)
			b.replaced("x", 7, 8)
			a.renewed("B", 9, 10, granted+9)
			a.freed(l, 20, 21)
		}, rules: "broken"},
		"had while the one before was replaced, and renewed": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 2, 3)
			b.replaced("x", 4, 6)
			l := a.got("B", "x", 20, 0, 5, granted)
			a.renewed("B", 9, 10, granted+9)
			a.freed(l, 20, 21)
		}},
		"told at once that a renewal was refused": {play: func(a, _ *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.refused("A", 300)
			a.at(l, history.Broken, 310)
			a.freed(l, 900, 901)
		}},
		"told late that a renewal was refused": {play: func(a, _ *script) {
			l := a.got("A", "x", 10, 0, 1, granted)
			a.refused("A", 300)
			a.at(l, history.Broken, 470)
			a.freed(l, 900, 901)
		}, rules: "unheard"},
		"handed over after a renewal was refused": {play: func(a, _ *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 250, 251)
			a.refused("A", 260)
			a.freed(a.handed("x", 11, 2, 301), 480, 481)
		}, rules: "unheard"},
		"a token that was ahead of the clock, and forgotten": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 9_000, 0, 1, granted), 2, 3)
			b.freed(b.got("B", "x", 5_000, 4, 5, granted), 6, 7)
		}, run: void(3, 9)},
		"a slot with a token that was ahead of the clock, and forgotten": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 1, 0, 1, granted), 4, 5)
			other := a.got("B", "x", 2, 0, 1, granted)
			a.freed(a.got("C", "x", 9_001, 4, 5, granted), 6, 7)
			b.freed(b.got("D", "x", 9_000, 3, 12, granted), 14, 15)
			a.freed(other, 20, 21)
		}, run: limitOf2Void(8, 10)},
		"a token that was far ahead of the clock, and forgotten": {play: func(a, b *script) {
			a.freed(a.got("A", "x", 19_000, 0, 1, granted), 2, 3)
			b.freed(b.got("B", "x", 5_000, 4, 5, granted), 6, 7)
		}, run: void(3, 9), rules: "order"},
		"a release that hung": {play: func(a, _ *script) {
			a.freed(a.got("A", "x", 10, 0, 1, granted), 5, 2000)
		}, rules: "bounded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := process("a"), process("b")
			c.play(a, b)
			run := c.run
			run.Processes, run.Margin, run.Request = told(a, b), margin, request
			report := history.Judge(run)
			assert.Equal(t, c.rules, rulesOf(report), "%v", report.Violations)
		})
	}
}
