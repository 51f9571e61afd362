//go:build linux

package main

import (
	"fmt"
	"io"
	"time"
)

const (
	// How much slower honest clients may become.
	mostSlower = 3
	// Below this p99 a ratio is noise.
	leastP99 = 5 * time.Millisecond
	// Of the server's own, and of connections that are about to be closed.
	spareGoroutines = 10
	// How much more memory there may be at the end of the siege than in its middle.
	mostGrowth = 1.25
	// And after it than before it, in use.
	spareHeap = 16 << 20
)

// result is what was measured.
type result struct {
	plan
	before, after state
	samples       []state
	peace, siege  *times
}

// print writes a table, and returns how many rows are not as they must be.
func (r *result) print(w io.Writer) (failed int) {
	row := func(ok bool, what, format string, args ...any) {
		mark := "ok  "
		if !ok {
			mark = "FAIL"
			failed++
		}
		_, _ = fmt.Fprintf(w, "%s  %-46s %s\n", mark, what, fmt.Sprintf(format, args...))
	}
	_, _ = fmt.Fprintf(w, "%d attacking connections for %v; honest: %d requests a second\n\n",
		r.attackers, r.plan.siege, r.rate)
	peace, siege := r.peace.p99(), r.siege.p99()
	row(siege <= mostSlower*max(peace, leastP99), "honest p99 ≤ 3 × that in peace",
		"%v in peace, %v under siege: %.1f × (median of 10 s each)", tenths(peace), tenths(
			siege,
		), float64(siege)/float64(peace))
	for _, share := range []float64{.5, .99} {
		row(true, fmt.Sprintf("p%.0f of all", 100*share), "%v in peace, %v under siege",
			tenths(r.peace.at(share)), tenths(r.siege.at(share)))
	}
	row(len(r.peace.wrong)+len(r.siege.wrong) == 0, "no honest request fails",
		"%d and %d requests; %v %v",
		len(r.peace.all), len(r.siege.all), r.peace.wrong, r.siege.wrong)
	row(r.after.Lost == 0, "no lease is lost", "%d lost; %d held throughout", r.after.Lost,
		idleLeases)
	middle, end := peak(third(r.samples, 1)), peak(third(r.samples, 2))
	row(float64(end.Resident) <= mostGrowth*float64(middle.Resident), "memory is flat under siege",
		"%s in the middle, %s at the end",
		mib(middle.Resident), mib(end.Resident))
	row(r.after.Heap <= r.before.Heap+spareHeap, "and given back", "%s in use before, %s after",
		mib(r.before.Heap), mib(r.after.Heap))
	row(r.after.Goroutines <= r.before.Goroutines+spareGoroutines,
		"goroutines are back to the start", "%d before, up to %d under siege, %d after",
		r.before.Goroutines, peak(r.samples).Goroutines, r.after.Goroutines)
	return failed
}

func tenths(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// third is one of three parts of samples.
func third(samples []state, i int) []state {
	return samples[len(samples)*i/3 : len(samples)*(i+1)/3]
}

func peak(samples []state) (most state) {
	for _, s := range samples {
		most.Resident, most.Goroutines = max(most.Resident, s.Resident), max(most.Goroutines,
			s.Goroutines)
	}
	return most
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
