package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
)

// The tables of limits that more callers want than may run.
const (
	hotTable     = "A hot limit: 64 goroutines of a process"
	crowdedTable = "More callers than slots: a limit of 100, 100 ms each, a link of 2 ms"
)

// hot lets the goroutines of one process hand the slots of a limit over, and a
// lock.
func (f *figures) hot(ctx context.Context, o options, s server) error {
	span := 500 * time.Millisecond
	if o.short {
		span = 50 * time.Millisecond
	}
	one, err := startCrew(ctx, 1, setup{takingTurns, lockbeat, s.Addr(), ""})
	if err != nil {
		return err
	}
	defer one.end()
	rates := make(map[int]float64)
	for _, n := range []int{0, 1, 5, 20} {
		t := turns{Name: fmt.Sprint("hot", n, rand.Int64()), Goroutines: 64, Span: span}
		row := "a lock"
		if n > 0 {
			t.Slots, row = []int{n}, fmt.Sprint("a limit of ", n)
		}
		if _, _, err := t.together(one, s); err != nil { // it warms up
			return err
		}
		sum, use, err := t.together(one, s)
		if err != nil {
			return err
		}
		rates[n] = float64(sum.total()) / sum.Took.Seconds()
		if err := f.addTurns(hotTable, row, sum, use); err != nil {
			return err
		}
		f.add(hotTable, row, "÷ a lock", rates[n]/rates[0])
	}
	return nil
}

// crowded lets a few callers less than a limit has slots run, and more.
func (f *figures) crowded(ctx context.Context, o options, s server) error {
	link, err := proxy.New(s.Addr())
	if err != nil {
		return err
	}
	defer link.Close()
	link.Delay(time.Millisecond)
	t := turns{Slots: []int{100}, Work: 100 * time.Millisecond, Span: 2 * time.Second}
	if o.short {
		t.Span = 150 * time.Millisecond
	}
	ideal := float64(t.Slots[0]) / t.Work.Seconds()
	for _, c := range []struct{ callers, processes int }{{95, 1}, {110, 1}, {200, 1}, {200, 4}} {
		all, err := startCrew(ctx, c.processes, setup{takingTurns, lockbeat, link.Addr(), ""})
		if err != nil {
			return err
		}
		t.Name, t.Goroutines = fmt.Sprint("crowded", rand.Int64()), c.callers/c.processes
		sum, use, err := t.together(all, s)
		all.end()
		if err != nil {
			return err
		}
		row := fmt.Sprintf("%d callers, processes: %d", c.callers, c.processes)
		rate := float64(sum.total()) / sum.Took.Seconds()
		f.add(crowdedTable, row, "slots/s", rate)
		f.add(crowdedTable, row, "÷ ideal", rate/ideal)
		f.add(crowdedTable, row, "scripts each", float64(use.scripts)/float64(max(sum.total(), 1)))
		if sum.Overlaps > 0 {
			return errOverlap
		}
	}
	return nil
}
