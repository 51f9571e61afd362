package renewer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shutdown ends the keeper. Callers who wait for a lock and newcomers get [ErrShutdown] at once. Operations that run are
// waited for; their leases stay alive. Shortly before ctx's deadline — a quarter of the time given, at most a second — those
// that still run are told by their contexts, with reason [ShutDown], and get [Config.Margin] or most of what is left to stop. Then
// all keys are freed in batches, again and again if the store does not answer.
//
// Shutdown returns when ctx ends at the latest; what is being freed then is finished behind its back. Without a deadline it waits for
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
	cut := 0
	if !k.awaitIdle(ctx, idle, drainTime(ctx)) {
		cut = k.cut()
		k.awaitIdle(ctx, idle, min(k.cfg.Margin, drainTime(ctx)))
	}
	freed := make(chan error, 1)
	go func() { freed <- k.freeAll(ctx) }() // finishes what it is at when ctx ends
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
	k.told = true
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

// leftover is a key to delete at the end.
type leftover struct {
	hold Hold
	must bool // otherwise it has been deleted once already, and only a request that was lost on its way could bring it back
}

func (k *Keeper) leftovers() []leftover {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.atMost()
	var left []leftover
	for _, l := range k.leases {
		if l.state == lost && l.lost().Reason != Usurped {
			left = append(left, leftover{l.ending(now), true})
		}
	}
	for _, o := range k.orphans {
		h := o.hold
		h.Keep = keepUntil(o.least, now)
		left = append(left, leftover{h, !o.freed})
	}
	k.orphans = nil
	return left
}

// freeAll deletes the keys of all leases that were not released, and the orphans. It tries again while ctx has time, and no
// longer than the keys live by themselves.
func (k *Keeper) freeAll(ctx context.Context) error {
	left := k.leftovers()
	lapsed := k.clock.now().add(k.cfg.TTL)
	for tries := 0; ; tries++ {
		var failure error
		if left, failure = k.freeOnce(left); len(left) == 0 {
			return nil
		}
		pause := k.sweepPause(tries)
		deadline, ok := ctx.Deadline()
		if ctx.Err() != nil || ok && time.Until(deadline) <= pause || k.clock.now() >= lapsed {
			return fmt.Errorf("%w: %d keys could not be freed, and lapse by themselves: %w",
				ErrUnavailable, len(left), storeError{failure})
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// freeOnce tells what must be tried again, and why.
func (k *Keeper) freeOnce(left []leftover) (again []leftover, failure error) {
	for len(left) > 0 {
		batch := left[:min(len(left), freeMost)]
		left = left[len(batch):]
		holds := make([]Hold, len(batch))
		for i := range batch {
			holds[i] = batch[i].hold
		}
		ctx := k.request(context.Background())
		answers := k.store.Release(ctx, holds)
		for i := range batch {
			if a := answerTo(answers, i, len(batch), brokenAnswer); a.Status == Unknown && batch[i].must {
				again, failure = append(again, batch[i]), orUnexplained(a.Err)
			}
		}
	}
	return again, failure
}

// finish ends the goroutines.
func (k *Keeper) finish(ctx context.Context, cut int, err error) error {
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

// halt ends the loops, and what they still ask the store. Under the lock, so that no sweeper is started afterwards.
func (k *Keeper) halt() {
	k.mu.Lock()
	k.halted = true
	close(k.stop)
	var unanswered []context.CancelCauseFunc
	for _, e := range k.ends.entries {
		if e.lease.state == asking {
			unanswered = append(unanswered, e.lease.op.Load().cancel)
		}
	}
	k.mu.Unlock()
	for _, cancel := range unanswered {
		cancel(ErrShutdown)
	}
	k.endLife()
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
