package renewer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// shutdown is how far [Keeper.Shutdown] has come. Guarded by Keeper.mu, other than the channels.
//
// What it holds true: the phases come in their order, and ended does
// not change once stop is closed.
type shutdown struct {
	phase    phase
	stillRan int           // operations that ran when they were told to stop
	ended    error         // what Shutdown returns
	closed   chan struct{} // closed when it begins
	stop     chan struct{} // closed when it has freed everything
}

func newShutdown() shutdown {
	return shutdown{closed: make(chan struct{}), stop: make(chan struct{})}
}

type phase uint8

const (
	phaseRun   phase = iota
	phaseDrain       // callers are refused, and operations are waited for
	phaseTell        // every operation was told to stop: one that begins now is told at once
	phaseFree        // questions to the store have ended: those asked now end at once
)

// Shutdown ends the keeper. Callers who wait for a lock and newcomers get
// [ErrShutdown] at once. Operations that run are waited for; their leases stay alive.
// Shortly before ctx's deadline — a quarter of the time given, at most a second or a
// [Config.Margin] and a quarter — those that still run are told by their contexts,
// with reason [ReasonShutdown]. When ctx ends otherwise they are told at that moment.
//
// A key is freed once its operation has returned, or Margin after it was told; never earlier,
// whatever ctx says: until then nobody else can have the lock. Keys are freed in batches, again and
// again if the store does not answer.
//
// Shutdown returns when ctx ends at the latest. What is left then is finished behind its back,
// within Margin and two seconds; if the process ends before, the keys lapse by themselves. So give
// it a context of its own with some seconds: one that a signal has ended leaves no time for
// anything. Without a deadline Shutdown waits for the operations for as long as ctx lives.
//
// The error is nil if every operation had returned and every key is free. A second call waits for
// the first, and returns the same.
func (k *Keeper) Shutdown(ctx context.Context) error {
	idle, first := k.close()
	if !first {
		return k.awaitStop(ctx)
	}
	clean := false
	freed := make(chan error, 1)
	func() {
		// also if an observer panics
		defer func() { go func() { freed <- k.finish(ctx, idle) }() }()
		if k.await(ctx, idle, k.drainTime(ctx)) {
			clean = k.cleaner.count() == 0
		} else {
			k.tell()
		}
	}()
	select {
	case err := <-freed:
		k.awaitLoops(ctx)
		return k.verdict(err)
	case <-ctx.Done():
	}
	if clean {
		return nil
	}
	go func() {
		if err := <-freed; err != nil {
			k.fault("shut down", "", err)
		}
	}()
	return k.verdict(ctx.Err())
}

// close begins the shutdown, and reports whether this is the first call.
func (k *Keeper) close() (idle <-chan struct{}, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shutdown.phase != phaseRun {
		return nil, false
	}
	k.shutdown.phase = phaseDrain
	close(k.shutdown.closed)
	return k.books.whenIdle(), true
}

// drainTime is how much of what is left of ctx may be waited.
func (k *Keeper) drainTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	left := time.Until(deadline)
	return left - min(left/4, max(time.Second, k.cfg.Margin*5/4))
}

// await waits until neither calls nor leases are left, and reports whether it came to that.
func (k *Keeper) await(ctx context.Context, idle <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-idle:
		return true
	default:
		return false
	}
}

// tell loses every lease that is still held.
func (k *Keeper) tell() {
	var news losses
	k.mu.Lock()
	k.shutdown.phase = phaseTell
	now := k.clock.Now()
	for _, l := range k.books.leases {
		if l.state == released { // the store is being told
			continue
		}
		k.shutdown.stillRan++
		if l.state == held {
			k.lose(l, ReasonShutdown, now, &news)
		}
	}
	k.mu.Unlock()
	news.deliver(k)
}

func (k *Keeper) verdict(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shutdown.stillRan > 0 {
		err = errors.Join(fmt.Errorf("lockbeat: shutdown: %d operations still ran and lost their "+
			"leases", k.shutdown.stillRan), err)
	}
	return err
}

// awaitLoops waits for the engine's goroutines.
func (k *Keeper) awaitLoops(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		k.goroutines.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// awaitStop is Shutdown for the second and later callers.
func (k *Keeper) awaitStop(ctx context.Context) error {
	select {
	case <-k.shutdown.stop:
		return k.shutdown.ended
	case <-ctx.Done():
		return ctx.Err()
	}
}
