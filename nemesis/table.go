package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
)

// minTTL keeps the margin of a lease, a tenth of its TTL, above the pauses of a busy machine.
const minTTL = time.Second

// shown is how many violations of each rule are told in full.
const shown = 3

// report writes the table, and what was violated with the command
// that replays it. It reports whether anything was.
func report(w io.Writer, results []campaign.Result) (violated bool) {
	_, _ = fmt.Fprintln(w, "| deployment | seed | grants | handed over | of limits (full) | lost "+
		"| broken, replaced (told) | faults | longest wait | excused overlaps (longest) "+
		"| violations | took |")
	_, _ = fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range results {
		_, _ = fmt.Fprintf(w,
			"| %s | %d | %d | %d | %d (%d) | %d | %d, %d (%d) | %d | %v | %d (%v) | %d | %v |\n",
			r.Options.Deployment, r.Options.Seed, r.Grants, r.HandedOver, r.Slots, r.Full, r.Lost,
			r.Broken, r.Replaced, r.Told, r.Faults,
			r.Waited.Round(time.Millisecond), r.Overlaps,
			r.Longest.Round(time.Millisecond), len(r.Violations), r.Took.Round(time.Second))
	}
	for _, r := range results {
		if len(r.Violations) == 0 {
			continue
		}
		violated = true
		_, _ = fmt.Fprintf(w, "\n%s: %d violations; again: %s\n", r.Options.Deployment,
			len(r.Violations), r.Options.Replay())
		byRule := make(map[string]int)
		for _, v := range r.Violations {
			byRule[v.Rule]++
			if byRule[v.Rule] <= shown {
				_, _ = fmt.Fprintf(w, "  %s\n", v)
			}
		}
		for _, rule := range slices.Sorted(maps.Keys(byRule)) {
			if n := byRule[rule]; n > shown {
				_, _ = fmt.Fprintf(w, "  %s: %d more\n", rule, n-shown)
			}
		}
	}
	return violated
}
