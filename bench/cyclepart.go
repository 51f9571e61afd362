package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// partCycles is the part of a process that takes and frees locks that no other wants.
const partCycles = "cycles"

// cyclesWanted and cyclesDone are what such a process reads and answers.
type cyclesWanted struct {
	Goroutines int
	Span       time.Duration
}

type cyclesDone struct {
	Cycles int
	Times  []time.Duration // of each cycle
	Took   time.Duration
	Allocs uint64        // of the whole process
	CPU    time.Duration // of the whole process
	Err    string
}

func askCycles(child *childProcess, wanted cyclesWanted) (cyclesDone, error) {
	done := new(cyclesDone)
	err := within(wanted.Span+2*endWithin, func() error {
		if err := json.NewEncoder(child.stdin).Encode(wanted); err != nil {
			return err
		}
		return child.said.Decode(done)
	})
	switch {
	case err != nil:
		return cyclesDone{}, err // done may still be written
	case done.Err != "":
		return cyclesDone{}, errors.New(done.Err)
	default:
		return *done, nil
	}
}

// playCycles runs cycles for each line that it reads. They have the context of the process, which
// nothing can cancel: rueidis pipelines for any other, so that no caller would go synchronously.
func playCycles(ctx context.Context, s childSpec, in *bufio.Reader, out *json.Encoder) error {
	c, err := newCycler(ctx, s)
	if err != nil {
		return err
	}
	defer c.close()
	profile, err := startProfile(s.Profile, strings.TrimSpace("cycles "+s.Who+" "+s.Way), "allocs")
	if err != nil {
		return err
	}
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	var workers []*cycleWorker
	for decoder := json.NewDecoder(in); ; {
		var wanted cyclesWanted
		if err := decoder.Decode(&wanted); errors.Is(err, io.EOF) {
			return profile.stop()
		} else if err != nil {
			return err
		}
		for number := len(workers); number < wanted.Goroutines; number++ {
			workers = append(workers, &cycleWorker{cycle: c.worker(number)})
		}
		done, err := runCycles(ctx, workers[:wanted.Goroutines], wanted.Span)
		if err != nil {
			done.Err = err.Error()
		}
		if err := out.Encode(done); err != nil {
			return err
		}
	}
}

// cycleWorker makes one cycle after the other.
type cycleWorker struct {
	cycle func(context.Context) error
	times []time.Duration // kept from slice to slice, so that no slice pays for its growth
	err   error
}

// run ends with over, which it sets if a cycle fails.
func (w *cycleWorker) run(ctx context.Context, over *atomic.Bool) {
	w.times = w.times[:0]
	for !over.Load() {
		begun := time.Now()
		if w.err = w.cycle(ctx); w.err != nil {
			over.Store(true)
			return
		}
		w.times = append(w.times, time.Since(begun))
	}
}

// runCycles runs all workers for a time, and ends early if one fails.
func runCycles(
	ctx context.Context, workers []*cycleWorker, span time.Duration,
) (done cyclesDone, err error) {
	cpuBefore, err := cpuTime()
	if err != nil {
		return done, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var over atomic.Bool
	begun := time.Now()
	timer := time.AfterFunc(span, func() { over.Store(true) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.run(ctx, &over) })
	}
	wg.Wait()
	done.Took = time.Since(begun)
	runtime.ReadMemStats(&after)
	cpuAfter, err := cpuTime()
	if err != nil {
		return done, err
	}
	done.Allocs, done.CPU = after.Mallocs-before.Mallocs, cpuAfter-cpuBefore
	for number, w := range workers {
		if w.err != nil {
			err = errors.Join(err, fmt.Errorf("goroutine %d: %w", number, w.err))
		}
		done.Times = append(done.Times, w.times...)
	}
	done.Cycles = len(done.Times)
	return done, err
}
