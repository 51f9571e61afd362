package renewer

import (
	"context"
)

// Shutdown ends the keeper. Callers who wait for a lock and newcomers get [ErrShutdown]
// at once. One for whom the store is being asked at that moment is answered when it has
// answered, and may get the lock. Operations that run are waited for; their leases stay alive.
// Shortly before ctx's deadline — a quarter of the time given, at most a second or a
// [Config.Margin] and a quarter — those that still run are told by their contexts,
// with reason [ReasonShutdown]. When ctx ends otherwise they are told at that moment.
//
// A key is freed once its operation has returned, or Margin after it was told;
// never earlier, whatever ctx says: until then no other owner can have the lock.
// Keys are freed in batches, again and again if the store does not answer.
//
// Shutdown returns when ctx ends at the latest. What is left then is finished behind its back,
// within Margin and two seconds; if the process ends before, the keys lapse by themselves. So give
// it a context of its own with some seconds: one that a signal has ended leaves no time for
// anything. Without a deadline Shutdown waits for the operations for as long as ctx lives.
//
// The error is nil if every operation had returned and every key is free, as far as the store has
// answered. An acquire whose caller left before it was answered may still arrive after that, where
// requests overtake each other: on several connections. Its key lapses with its TTL. A second call
// waits until the first has finished, behind its back if need be, and returns how that went.
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
			clean = k.cleaner.Count() == 0
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
	return k.books.WhenIdle(), true
}

// tell loses every lease that is still held.
func (k *Keeper) tell() {
	var news losses
	k.mu.Lock()
	k.shutdown.phase = phaseTell
	now := k.clock.Now()
	for _, l := range k.books.Leases() {
		if l.state == stateReleased { // the store is being told
			continue
		}
		k.shutdown.stillRan++
		if l.state == stateHeld {
			k.lose(l, ReasonShutdown, now, &news)
		}
	}
	k.mu.Unlock()
	news.deliver(k)
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
