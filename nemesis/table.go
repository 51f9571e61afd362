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
	_, _ = fmt.Fprintln(w, "| deployment | seed | grants | handed over | lost | faults "+
		"| longest wait | excused overlaps (longest) | refused uses | increments | violations "+
		"| took |")
	_, _ = fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range results {
		_, _ = fmt.Fprintf(w,
			"| %s | %d | %d | %d | %d | %d | %v | %d (%v) | %d | %d | %d | %v |\n",
			r.Options.Deployment, r.Options.Seed, r.Grants, r.HandedOver, r.Lost, r.Faults,
			r.Waited.Round(time.Millisecond), r.Overlaps,
			r.Longest.Round(time.Millisecond), r.Refused, r.Increments, len(
				r.Violations,
			), r.Took.Round(time.Second))
	}
	for _, r := range results {
		if u := r.Usage; r.Options.Idle > 0 {
			_, _ = fmt.Fprintf(w,
				"\n%s: of %d idle leases %d were held at the end; a process had %d goroutines "+
					"and %.1f MB of heap early, "+
					"%d and %.1f MB late\n",
				r.Options.Deployment, r.Options.Idle, u.Idle, u.Goroutines, megabytes(
					u.Heap,
				), u.LateGoroutines, megabytes(u.LateHeap))
		}
		if r.Former.FailOvers > 0 {
			reportFormer(w, r)
		}
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

// reportFormer writes what became of the leases on primaries that were left up.
func reportFormer(w io.Writer, r campaign.Result) {
	f, ms := r.Former, time.Millisecond
	_, _ = fmt.Fprintf(w, "\n%s: %d fail-overs left the former primary up (TTL %v). After its "+
		"holder's client had been told of the new "+
		"one, a lease lived there for %v at most (%d leases), and two believed for %v at most. "+
		"Clients that had not been told, for which "+
		"no bound is promised, had %d leases there; overlaps with others: %d. After it had "+
		"refused to write, a lease lived there for %v at most\n",
		r.Options.Deployment, f.FailOvers, r.Options.TTL, f.Longest.Round(
			ms,
		), f.Leases, r.Told.Round(ms), f.Unheard, r.Unheard, f.Refused.Round(ms))
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
