package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// keepAwake keeps all cores awake until stop. A core that has nothing to do
// halts, and on a virtual machine waking it takes longer than a request:
// figures are then of halts, and a library that does more work may look
// quicker. So a thread at idle priority, as of chrt -i 0, spins on each core
// and gives way at once to any that works. The threads have a process of their
// own, since the garbage collector of this one would wait for them.
func keepAwake(ctx context.Context) (stop func(), err error) {
	c, err := startChild(ctx, setup{Role: spinning})
	if err != nil {
		return nil, err
	}
	return c.end, nil
}

// newSpinner is a child that does nothing, as often as it can.
func newSpinner(setup) (handle, error) {
	var cores unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cores); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	if runtime.GOMAXPROCS(0) < cores.Count() {
		return nil, errors.New("a quota bounds the processor time, which they would use up")
	}
	runtime.GOMAXPROCS(cores.Count() + 1) // one to hear that it is over
	errs := make(chan error)
	for core := range len(cores) * 64 {
		if cores.IsSet(core) {
			go spin(core, errs)
			if err := <-errs; err != nil {
				return nil, err
			}
		}
	}
	return func(context.Context, json.RawMessage) (any, error) { return nil, nil }, nil
}

func spin(core int, ready chan<- error) {
	runtime.LockOSThread() // what follows is of this thread
	var only unix.CPUSet
	var turns atomic.Uint32
	only.Set(core)
	err := unix.SchedSetaffinity(0, &only) // left to itself, one core would have two of them
	if err == nil {
		err = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE,
		}, 0)
	}
	ready <- err
	for err == nil {
		turns.Add(1)
	}
}
