package renewer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shutdown ends the keeper. Callers who wait for a lock and newcomers get [ErrShutdown] at once. Operations that run are
// waited for; their leases stay alive. Shortly before ctx's deadline — a quarter of the time given, at most a second — those
// that still run are told by their contexts, with reason [ShutDown], get [Config.Margin] or half of what is left to stop, and
// all keys are freed in batches.
//
// Shutdown returns when ctx ends at the latest, and then frees what is left behind its back. Without a deadline it waits for
// the operations for as long as ctx lives. The error is nil if every operation had returned and every key is free. A
// second call waits for the first.
func (k *Keeper) Shutdown(ctx context.Context) error {
	k.mu.Lock()
	first := !k.closing
	if first {
		k.closing = true
		close(k.closed)
		k.idle = make(chan struct{})
	}
	idle := k.idle
	k.checkIdle()
	k.mu.Unlock()
	if !first {
		return k.awaitStop(ctx)
	}
	if k.awaitIdle(ctx, idle, drainTime(ctx)) {
		return k.finish(ctx, 0, nil)
	}
	cut := k.cut()
	k.awaitIdle(ctx, idle, min(k.cfg.Margin, drainTime(ctx)))
	freed := make(chan error, 1)
	go func() { freed <- k.freeAll() }() // goes on when ctx ends
	select {
	case err := <-freed:
		return k.finish(ctx, cut, err)
	case <-ctx.Done():
		go func() {
			if err := <-freed; err != nil {
				k.fault("shut down", "", err)
			}
			k.halt()
		}()
		return k.verdict(cut, ctx.Err())
	}
}

// drainTime is how much of what is left of ctx may be waited.
func drainTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	left := time.Until(deadline)
	return left - min(left/4, time.Second)
}

// awaitIdle waits until neither calls nor leases are left and tells whether it was so.
func (k *Keeper) awaitIdle(ctx context.Context, idle <-chan struct{}, most time.Duration) bool {
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

// cut loses every lease that is still held and tells how many.
func (k *Keeper) cut() int {
	var news losses
	k.mu.Lock()
	now := k.clock.now()
	for _, l := range k.leases {
		if l.state == held {
			k.lose(l, ShutDown, now, &news)
		}
	}
	k.mu.Unlock()
	news.deliver(k)
	return len(news.leases)
}

// freeAll deletes the keys of all leases that were not released, and the orphans.
func (k *Keeper) freeAll() error {
	k.mu.Lock()
	holds := make([]Hold, 0, len(k.leases)+len(k.orphans))
	for _, l := range k.leases {
		if l.state == lost && l.lost.Reason != Usurped {
			holds = append(holds, l.hold())
		}
	}
	for _, o := range k.orphans {
		holds = append(holds, o.hold)
	}
	k.orphans = nil
	k.mu.Unlock()

	ctx, cancel := k.requestContext(context.Background())
	defer cancel()
	failures, failure := 0, error(nil)
	for len(holds) > 0 {
		batch := holds[:min(len(holds), batchMost)]
		holds = holds[len(batch):]
		answers := k.store.Release(ctx, batch)
		for i := range batch {
			if a := answerTo(answers, i, len(batch), brokenAnswer); a.Status == Unknown {
				failures, failure = failures+1, orUnexplained(a.Err)
			}
		}
	}
	if failures > 0 {
		return fmt.Errorf("%w: %d keys could not be freed and lapse within %v: %w", ErrUnavailable, failures, k.cfg.TTL, failure)
	}
	return nil
}

// finish ends the goroutines.
func (k *Keeper) finish(ctx context.Context, cut int, err error) error {
	if cut == 0 && err == nil {
		err = k.freeAll() // orphans may be left
	}
	k.halt()
	done := make(chan struct{})
	go func() {
		k.loops.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return k.verdict(cut, err)
}

// halt ends the loops. Under the lock, so that no sweeper is started afterwards.
func (k *Keeper) halt() {
	k.mu.Lock()
	close(k.stop)
	k.mu.Unlock()
}

func (k *Keeper) verdict(cut int, err error) error {
	if cut > 0 {
		err = errors.Join(fmt.Errorf("lockbeat: shutdown: %d operations still ran and lost their leases", cut), err)
	}
	return err
}

// awaitStop is Shutdown for the second and later callers.
func (k *Keeper) awaitStop(ctx context.Context) error {
	select {
	case <-k.stop:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
