package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// freeLocks names the table of locks that no other wants.
func freeLocks(goroutines int) string {
	return fmt.Sprintf("Take and free a lock, goroutines: %d, a key each", goroutines)
}

// cycles lets goroutines take and free locks that no other wants: all
// contestants in slices that take turns, each in a process of its own. Each
// round has new processes, since two of one program differ by some per cent for
// as long as they live.
func cycles(ctx context.Context, o options, f *figures) error {
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	slices, span := 5, 100*time.Millisecond
	if o.short {
		slices, span = 1, 20*time.Millisecond
	}
	all := make(map[string]crew)
	defer func() {
		for _, c := range all {
			c.end()
		}
	}()
	who := o.contestants(everyone...)
	for _, one := range who {
		if all[one], err = startCrew(ctx, 1, setup{takingTurns, one, s.Addr(), ""}); err != nil {
			return err
		}
	}
	for _, goroutines := range []int{1, 4, 8, 16, 64} {
		for slice := range slices + 1 {
			for _, i := range rand.Perm(len(who)) {
				t := turns{Name: who[i], Own: true, Goroutines: goroutines, Span: span}
				sum, use, err := t.together(all[who[i]], s)
				if err != nil {
					return fmt.Errorf("%s: %w", who[i], err)
				}
				if slice > 0 { // the first one warms up
					f.addCycles(freeLocks(goroutines), who[i], sum, use)
				}
			}
		}
	}
	return nil
}

// The columns by which Lockbeat is judged.
const (
	cyclesRate = "cycles/s"
	cycleMean  = "mean, µs"
	cycleP50   = "p50, µs"
	cycleRedis = "Redis CPU, µs a cycle"
	handOvers  = "hand-overs/s"
	longest    = "longest wait, ms"
	neverHad   = "never had it"
)

func (f *figures) addCycles(table, who string, sum taken, use usage) {
	n := len(sum.Times)
	if n == 0 {
		return
	}
	f.add(table, who, cyclesRate, float64(n)/sum.Took.Seconds())
	f.add(table, who, cycleMean, micros(mean(sum.Times)))
	f.add(table, who, cycleP50, micros(sum.Times[n/2]))
	f.add(table, who, "p99, µs", micros(sum.Times[n*99/100]))
	f.add(table, who, "allocs a cycle", float64(sum.Allocs)/float64(n))
	f.add(table, who, "client CPU, µs a cycle", sum.each(sum.CPU))
	f.add(table, who, cycleRedis, sum.each(use.cpu))
}

// oneLock names the table of a lock that goroutines of several processes want.
func oneLock(processes, goroutines int) string {
	return fmt.Sprintf("One key, processes × goroutines: %d × %d", processes, goroutines)
}

// oneKey lets all goroutines of all processes take and free the same lock.
func oneKey(ctx context.Context, o options, f *figures) error {
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	cases := [][2]int{{1, 4}, {1, 16}, {2, 1}, {8, 1}, {64, 1}}
	units := []int{1, 3, 1, 1, 6} // so long that each library lets each have it, if it ever does
	unit := time.Second
	if o.short {
		cases, unit = [][2]int{{1, 4}, {3, 1}}, 100*time.Millisecond
	}
	for i, c := range cases {
		span := time.Duration(units[i]) * unit
		table := oneLock(c[0], c[1])
		who := o.contestants(libraries...)
		for _, j := range rand.Perm(len(who)) {
			err := f.inTime(ctx, o, table, who[j], func(ctx context.Context) error {
				all, err := startCrew(ctx, c[0], setup{takingTurns, who[j], s.Addr(), ""})
				if err != nil {
					return err
				}
				defer all.end()
				// A key that was never locked before: some leave one behind if
				// they are cancelled.
				t := turns{Name: fmt.Sprint(who[j], rand.Int64()), Goroutines: c[1], Span: unit / 4}
				if _, _, err := t.together(all, s); err != nil { // it warms up
					return err
				}
				t.Name, t.Span = t.Name+" again", span
				sum, use, err := t.together(all, s)
				if err != nil {
					return err
				}
				return f.addTurns(table, who[j], sum, use)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

var errOverlap = errors.New("two had the lock at a time")

func (f *figures) addTurns(table, who string, sum taken, use usage) error {
	f.add(table, who, handOvers, float64(sum.total())/sum.Took.Seconds())
	f.add(table, who, longest, millis(sum.Longest))
	f.add(table, who, neverHad, float64(sum.without()))
	f.add(table, who, "Jain index", jain(sum.Counts))
	f.add(table, who, "client CPU, µs each", sum.each(sum.CPU))
	f.add(table, who, "Redis CPU, µs each", sum.each(use.cpu))
	f.add(table, who, "scripts each", float64(use.scripts)/float64(max(sum.total(), 1)))
	if sum.Overlaps > 0 {
		return errOverlap
	}
	return nil
}

const (
	callersTable = "300 callers of one user, 5 ms each, in two processes"
	toIdeal      = "time ÷ ideal"
)

// callers lets a crowd of callers take one lock, each once.
func callers(ctx context.Context, o options, f *figures) error {
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	const processes = 2
	t := turns{Name: "user", Goroutines: 150, Work: 5 * time.Millisecond}
	if o.short {
		t.Goroutines = 5
	}
	for _, who := range o.contestants(libraries...) {
		err := f.inTime(ctx, o, callersTable, who, func(ctx context.Context) error {
			all, err := startCrew(ctx, processes, setup{takingTurns, who, s.Addr(), ""})
			if err != nil {
				return err
			}
			defer all.end()
			t.Name = who
			sum, use, err := t.together(all, s)
			if err != nil {
				return err
			}
			ideal := t.Work * time.Duration(processes*t.Goroutines)
			f.add(callersTable, who, toIdeal, float64(sum.Took)/float64(ideal))
			f.add(callersTable, who, "scripts each", float64(use.scripts)/float64(sum.total()))
			if sum.Overlaps > 0 {
				return errOverlap
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
