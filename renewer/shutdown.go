package renewer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
)

// shutdown is what others hear of [Keeper.Shutdown]. How far it has come is in
// the books.
type shutdown struct {
	k       *Keeper
	closed  chan struct{} // closed when it begins
	drained chan struct{} // closed when phaseDrain is over
	stop    chan struct{} // closed when it has freed everything
	ended   error         // what Shutdown returns; set before stop is closed
}

func newShutdown(k *Keeper) shutdown {
	return shutdown{
		k: k, closed: make(chan struct{}), drained: make(chan struct{}), stop: make(chan struct{}),
	}
}

// Shutdown refuses newcomers and those who wait with [ErrShutdown], and waits
// for the operations that run, whose leases stay alive, and which may take
// further locks ([Request].Nested). Shortly before ctx's deadline (a quarter of
// the time left; a second, or a Margin and a quarter, at most), or when ctx
// ends otherwise, those that still run are told: [ReasonShutdown].
//
// A key is freed when its operation has returned, or [Config.Margin] after it
// was told, and never earlier. Shutdown returns when ctx ends; the rest is done
// within Margin and two seconds, or lapses. Give it a context of its own with
// some seconds left.
//
// The error is nil if every operation had returned and every key is free, as
// far as the store has answered. A second call waits until all of it is done.
func (k *Keeper) Shutdown(ctx context.Context) error {
	_ = ctx.Err() // a nil one panics here, and not in a goroutine of the engine
	s := &k.shutdown
	idle, first := s.close()
	if !first {
		return s.awaitStop(ctx)
	}
	clean := false
	freed := make(chan error, 1)
	func() {
		// also if an observer panics
		defer func() { go func() { freed <- s.finish(ctx, idle) }() }()
		if s.await(ctx, idle, s.drainTime(ctx)) {
			clean = k.cleaner.Count() == 0
		} else {
			s.tell()
		}
	}()
	select {
	case err := <-freed:
		s.awaitLoops(ctx)
		return s.verdict(err)
	case <-ctx.Done():
	}
	if clean {
		// All that may come yet is the key of an acquire whose caller left
		// before the answer, and which arrives late, as requests on several
		// connections may overtake each other. That key lapses.
		return nil
	}
	go func() {
		if err := <-freed; err != nil {
			k.fault("shut down", "", err)
		}
	}()
	return s.verdict(ctx.Err())
}

// close begins the shutdown, and reports whether this is the first call.
func (s *shutdown) close() (idle <-chan struct{}, first bool) {
	b := s.k.lock()
	defer b.Unlock()
	if b.phase != phaseRun {
		return nil, false
	}
	b.phase = phaseDrain
	close(s.closed)
	s.k.desk.Drain()
	idle = b.idle
	b.checkIdle()
	return idle, true
}

// turnsAway is closed when a call may wait no longer, since the keeper shuts
// down.
func (s *shutdown) turnsAway(nested bool) <-chan struct{} {
	if nested {
		return s.drained
	}
	return s.closed
}

// tell loses every lease that is still held.
func (s *shutdown) tell() {
	b := s.k.lock()
	b.phase = phaseTell
	close(s.drained)
	s.k.desk.Close()
	news := losses{b: b, now: s.k.clock.Now()}
	for _, l := range slices.Collect(b.leases.All()) { // since lose moves it
		if !l.belief.Held() && !l.belief.Lost() { // the store is asked, or is being told
			continue
		}
		b.stillRan++
		if l.belief.Held() {
			news.lose(l, ReasonShutdown)
		}
	}
	b.Unlock()
	news.deliver()
}

// awaitLoops waits for the engine's goroutines.
func (s *shutdown) awaitLoops(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.k.goroutines.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// awaitStop is Shutdown for the second and later callers.
func (s *shutdown) awaitStop(ctx context.Context) error {
	select {
	case <-s.stop:
		return s.ended
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hangUpFor is how long a store may take to return when the context of what it
// was asked has ended.
const hangUpFor = time.Second

// finish frees what is left and ends the goroutines.
func (s *shutdown) finish(ctx context.Context, idle <-chan struct{}) error {
	s.freeNoticed(ctx)
	s.await(context.Background(), idle, s.noticeLeft(ctx))
	s.hangUp()
	s.disownNoticed()
	s.await(context.Background(), idle, min(hangUpFor, max(s.drainTime(ctx), firstBackoff)))
	s.disownNoticed()
	last, cancel := cleanup.LastRequests(ctx)
	defer cancel()
	return s.halt(last, unfreed(s.k.cleaner.FreeAll(ctx, last)))
}

// freeNoticed releases what need not wait until the others have had their
// notice, once.
func (s *shutdown) freeNoticed(ctx context.Context) {
	last, cancel := cleanup.LastRequests(ctx)
	defer cancel()
	s.disownNoticed()
	s.k.cleaner.FreeOnce(last)
}

// disownNoticed takes the leases of operations off the books that still run
// although they have had their notice: the cleaner is to free their keys.
func (s *shutdown) disownNoticed() {
	k := s.k
	b := k.lock()
	defer b.Unlock()
	now := k.clock.Now()
	for l := range b.leases.All() {
		if l.belief.Lost() && !l.belief.Why().gone() && l.belief.Noticed(&k.rules) <= now {
			o := l.orphan(l.ending(now))
			o.Freed = l.freedByShutdown
			k.cleaner.Leave(o)
			b.strike(l)
		}
	}
}

// freedByShutdown books that the store was asked to free the key, and has
// answered.
func (l *Lease) freedByShutdown() {
	defer l.k.lock().Unlock()
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

// noticeLeft is how long to wait so that each operation that was told has had
// Margin since; and otherwise for what the store is being asked.
func (s *shutdown) noticeLeft(ctx context.Context) time.Duration {
	k := s.k
	b := k.lock()
	defer b.Unlock()
	now := k.clock.Now()
	left := min(k.cfg.Margin, s.drainTime(ctx))
	for l := range b.leases.All() {
		if l.belief.Lost() && !l.belief.Why().gone() {
			left = max(left, l.belief.Noticed(&k.rules).Sub(now))
		}
	}
	return left
}

// hangUp ends what the store is being asked, other than by finish: no caller
// waits for its answers.
func (s *shutdown) hangUp() {
	k := s.k
	b := k.lock()
	if b.phase < phaseTell {
		close(s.drained)
	}
	b.phase = phaseFree
	var unanswered []context.CancelCauseFunc
	for l := range b.leases.All() {
		if l.belief.Asking() {
			unanswered = append(unanswered, l.op.Made().Cancel)
		}
	}
	b.Unlock()
	k.cleaner.Collect() // before its questions end, so that they are no faults
	for _, cancel := range unanswered {
		cancel(ErrShutdown)
	}
	k.requests.End()
	k.renewals.End()
}

// halt ends the loops, settles what Shutdown returns, and frees what has come
// in since finish looked last. From then on everybody frees what is theirs.
func (s *shutdown) halt(last context.Context, err error) error {
	k := s.k
	b := k.lock()
	heartbeats, ends := b.heartbeats.Loop, b.ends
	unanswered := k.desk.Inside()
	for l := range b.leases.All() {
		if l.belief.Released() {
			unanswered++
		}
	}
	b.Unlock()
	if unanswered > 0 {
		err = errors.Join(err,
			fmt.Errorf("%w: %d of its answers are still awaited; what they leave lapses by itself",
				ErrUnavailable, unanswered))
	}
	s.disownNoticed()
	err = errors.Join(err, unfreed(k.cleaner.Close(last)))
	s.ended = s.verdict(err)
	k.deaf()
	heartbeats.Stop()
	ends.Stop()
	close(s.stop)
	return err
}

// drainTime is how much of what is left of ctx may be waited.
func (s *shutdown) drainTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	left := time.Until(deadline)
	return left - min(left/4, max(time.Second, s.k.cfg.Margin*5/4))
}

// await waits until neither calls nor leases are left, and reports whether it
// came to that.
func (s *shutdown) await(ctx context.Context, idle <-chan struct{}, most time.Duration) bool {
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

func (s *shutdown) verdict(err error) error {
	b := s.k.lock()
	defer b.Unlock()
	if b.stillRan > 0 {
		err = errors.Join(fmt.Errorf("lockbeat: shutdown: %d operations still ran and lost their "+
			"leases", b.stillRan), err)
	}
	return err
}
