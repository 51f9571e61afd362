package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// before is Lockbeat of another checkout.
const before = "Lockbeat, before"

// undisturbed is how the floor, Lockbeat, and, by -before, Lockbeat as it was, take and free locks
// that no other wants: a figure for each slice, of each of them, by the number of goroutines.
type undisturbed struct {
	who        []string
	program    string // of before
	slice      time.Duration
	turns      int // in a round
	rates, cpu map[int][]sample
}

// uncontended lets processes of all of them run in turn. Each round starts new ones, since two
// processes of one program differ by some per cent for as long as they live.
func uncontended(ctx context.Context, o options, w io.Writer) ([]target, error) {
	u := &undisturbed{
		who: []string{byHand, lockbeat}, program: o.before, slice: 100 * time.Millisecond,
		turns: 20, rates: make(map[int][]sample), cpu: make(map[int][]sample),
	}
	rounds, sizes := o.rounds, []int{1, 64, 1024}
	if o.short {
		u.slice, u.turns, rounds = u.slice/2, 2, 1
	}
	if u.program != "" {
		u.who = append(u.who, before)
	}
	for range rounds {
		if err := u.round(ctx, sizes); err != nil {
			return nil, err
		}
	}
	out := &printer{w: w}
	var targets []target
	for _, goroutines := range sizes {
		rates, cpu := u.rates[goroutines], u.cpu[goroutines]
		t := table{{"", "cycles/s", "÷ by hand", "client CPU µs a cycle"}}
		for i, who := range u.who {
			t.add(who, fmt.Sprintf("%.0f", rates[i].median()),
				fmt.Sprintf("%.3f", ratioOf(&rates[i], &rates[0])),
				fmt.Sprintf("%.1f", cpu[i].median()))
		}
		out.printf("\n## Acquire + release, goroutines: %d, a key each (medians of %d slices of "+
			"%v)\n\n%s", goroutines, u.turns*rounds, u.slice, t)
		if u.program != "" {
			targets = append(targets, noSlower(goroutines, ratios(&rates[1], &rates[2])))
		}
	}
	return targets, out.err
}

func (u *undisturbed) round(ctx context.Context, sizes []int) error {
	server, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	children := make([]*childProcess, len(u.who))
	defer func() {
		for _, c := range children {
			if c != nil {
				_ = c.end(nil) // what it measured is here already
			}
		}
	}()
	for _, i := range rand.Perm(len(u.who)) {
		spec := childSpec{Part: partCycles, Who: u.who[i], Addr: server.Addr(), TTL: cycleTTL}
		program := ""
		if spec.Who == before {
			spec.Who, program = lockbeat, u.program
		}
		if children[i], err = startProgram(ctx, program, spec); err != nil {
			return err
		}
		if err := children[i].said.Decode(new(ready)); err != nil {
			return fmt.Errorf("%s did not begin: %w", u.who[i], err)
		}
	}
	for _, goroutines := range sizes {
		if u.rates[goroutines] == nil {
			u.rates[goroutines] = make([]sample, len(u.who))
			u.cpu[goroutines] = make([]sample, len(u.who))
		}
		for turn := range u.turns + 1 {
			if err := u.turn(children, goroutines, turn > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn lets each process run for a slice, in any order, so that none always follows the same one.
func (u *undisturbed) turn(children []*childProcess, goroutines int, warm bool) error {
	for _, i := range rand.Perm(len(u.who)) {
		done, err := askCycles(children[i], cyclesWanted{goroutines, u.slice})
		if err != nil {
			return fmt.Errorf("%s: %w", u.who[i], err)
		}
		if warm {
			u.rates[goroutines][i].add(float64(done.Cycles) / done.Took.Seconds())
			u.cpu[goroutines][i].add(done.CPU.Seconds() * 1e6 / float64(max(done.Cycles, 1)))
		}
	}
	return nil
}

// noSlower judges Lockbeat's cycles beside those of before. It is slower if the median is below 1
// with 95 % confidence: the same program beside itself is, half of the time, by a per cent.
func noSlower(goroutines int, ratios []float64) target {
	low, high := confidence(ratios)
	return target{
		fmt.Sprintf("acquire + release, goroutines: %d, after ÷ before", goroutines),
		fmt.Sprintf("%.3f (95 %%: %.3f to %.3f)", median(ratios), low, high), "≥ 1.00", high >= 1,
	}
}

// confidence is the interval that has the median of what values are drawn from, with 95 %: between
// the order statistics that are 1.96 standard deviations of the binomial distribution apart.
func confidence(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	reach := 1.96 * math.Sqrt(n) / 2
	last := len(sorted) - 1
	return sorted[max(int(n/2-reach), 0)], sorted[min(int(math.Ceil(n/2+reach)), last)]
}
