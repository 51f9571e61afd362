package renewer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
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
	idle     chan struct{} // closed when neither calls nor leases are left; nil then
	drained  chan struct{} // closed when phaseDrain is over
	stop     chan struct{} // closed when it has freed everything
}

func newShutdown() shutdown {
	return shutdown{
		closed: make(chan struct{}), idle: make(chan struct{}),
		drained: make(chan struct{}), stop: make(chan struct{}),
	}
}

type phase uint8

const (
	phaseRun   phase = iota
	phaseDrain       // newcomers are refused, and operations are waited for
	phaseTell        // every operation was told to stop: one that begins now is told at once
	phaseFree        // questions to the store have ended: those asked now end at once
)

// Shutdown refuses newcomers and those who wait with [ErrShutdown], and waits for the
// operations that run, whose leases stay alive, and which may take further locks
// ([Request].Nested). Shortly before ctx's deadline (a quarter of the
// time left; a second, or a Margin and a quarter, at most), or when ctx ends otherwise, those
// that still run are told: [ReasonShutdown].
//
// A key is freed when its operation has returned, or [Config.Margin] after it was told, and
// never earlier. Shutdown returns when ctx ends; the rest is done within Margin and two
// seconds, or lapses. Give it a context of its own with some seconds left.
//
// The error is nil if every operation had returned and every key is free, as far as the store
// has answered. A second call waits for the first and returns the same.
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
		// But for an acquire whose caller had left before it was answered, which may still arrive
		// where requests overtake each other, on several connections: its key lapses.
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
	k.desk.Drain()
	idle = k.shutdown.idle
	k.checkIdle()
	return idle, true
}

// strike takes a lease off the books. Its key is free, or the cleaner's. Under k.mu.
func (k *Keeper) strike(l *Lease) {
	k.leases.Remove(l)
	k.checkIdle()
}

// checkIdle notes that neither calls nor leases are left, if Shutdown waits for that. Under k.mu.
func (k *Keeper) checkIdle() {
	s := &k.shutdown
	if s.phase != phaseRun && s.idle != nil && k.leases.Len() == 0 && k.desk.CloseIfEmpty() {
		close(s.idle)
		s.idle = nil
	}
}

// turnedAway is closed when the call may wait no longer, since the keeper shuts down.
func (c *call) turnedAway() <-chan struct{} {
	if c.request.Nested {
		return c.k.shutdown.drained
	}
	return c.k.shutdown.closed
}

// tell loses every lease that is still held.
func (k *Keeper) tell() {
	var news losses
	k.mu.Lock()
	k.shutdown.phase = phaseTell
	close(k.shutdown.drained)
	k.desk.Close()
	now := k.clock.Now()
	for _, l := range slices.Collect(k.leases.All()) { // since lose moves it
		if !l.belief.Held() && !l.belief.Lost() { // the store is asked, or is being told
			continue
		}
		k.shutdown.stillRan++
		if l.belief.Held() {
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

// hangUpFor is how long a store may take to return when the context of what it was asked has ended.
const hangUpFor = time.Second

// finish frees what is left and ends the goroutines.
func (k *Keeper) finish(ctx context.Context, idle <-chan struct{}) error {
	k.freeNoticed(ctx)
	k.await(context.Background(), idle, k.noticeLeft(ctx))
	k.hangUp()
	k.disownNoticed()
	k.await(context.Background(), idle, min(hangUpFor, max(k.drainTime(ctx), firstBackoff)))
	k.disownNoticed()
	last, cancel := cleanup.LastRequests(ctx)
	defer cancel()
	return k.halt(last, unfreed(k.cleaner.FreeAll(ctx, last)))
}

// freeNoticed releases what need not wait until the others have had their notice, once.
func (k *Keeper) freeNoticed(ctx context.Context) {
	last, cancel := cleanup.LastRequests(ctx)
	defer cancel()
	k.disownNoticed()
	k.cleaner.FreeOnce(last)
}

// disownNoticed takes the leases of operations off the books that still run although they have had
// their notice: the cleaner is to free their keys.
func (k *Keeper) disownNoticed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	for l := range k.leases.All() {
		if l.belief.Lost() && !l.belief.Why().gone() && l.belief.Noticed(&k.rules) <= now {
			o := l.orphan(l.ending(now))
			o.Freed = l.freedByShutdown
			k.cleaner.Leave(o)
			k.strike(l)
		}
	}
}

// freedByShutdown books that the store was asked to free the key, and has answered.
func (l *Lease) freedByShutdown() {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.belief.Free()
}

// unfreed is the error of Shutdown for n keys, nil for none.
func unfreed(n int, failure error) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d keys could not be freed, and lapse by themselves: %w",
		ErrUnavailable, n, storeError{failure})
}

// noticeLeft is how long to wait so that each operation that was told has had Margin since; and
// otherwise for what the store is being asked.
func (k *Keeper) noticeLeft(ctx context.Context) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	left := min(k.cfg.Margin, k.drainTime(ctx))
	for l := range k.leases.All() {
		if l.belief.Lost() && !l.belief.Why().gone() {
			left = max(left, l.belief.Noticed(&k.rules).Sub(now))
		}
	}
	return left
}

// hangUp ends what the store is being asked, other than by finish: no caller waits for its answers.
func (k *Keeper) hangUp() {
	k.mu.Lock()
	if k.shutdown.phase < phaseTell {
		close(k.shutdown.drained)
	}
	k.shutdown.phase = phaseFree
	var unanswered []context.CancelCauseFunc
	for l := range k.leases.All() {
		if l.belief.Asking() {
			unanswered = append(unanswered, l.op.Made().Cancel)
		}
	}
	k.mu.Unlock()
	k.cleaner.Collect() // before its questions end, so that they are no faults
	for _, cancel := range unanswered {
		cancel(ErrShutdown)
	}
	k.requests.End()
	k.renewals.End()
}

// halt ends the loops, settles what Shutdown returns, and frees what has come in since finish
// looked last. From then on everybody frees what is theirs.
func (k *Keeper) halt(last context.Context, err error) error {
	k.mu.Lock()
	unanswered := k.desk.Inside()
	for l := range k.leases.All() {
		if l.belief.Released() {
			unanswered++
		}
	}
	k.mu.Unlock()
	if unanswered > 0 {
		err = errors.Join(err,
			fmt.Errorf("%w: %d of its answers are still awaited; what they leave lapses by itself",
				ErrUnavailable, unanswered))
	}
	k.disownNoticed()
	err = errors.Join(err, unfreed(k.cleaner.Close(last)))
	k.shutdown.ended = k.verdict(err)
	k.deaf()
	k.heartbeats.Loop.Stop()
	k.ends.Stop()
	close(k.shutdown.stop)
	return err
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

func (k *Keeper) verdict(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shutdown.stillRan > 0 {
		err = errors.Join(fmt.Errorf("lockbeat: shutdown: %d operations still ran and lost their "+
			"leases", k.shutdown.stillRan), err)
	}
	return err
}
