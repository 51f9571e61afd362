package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
)

const (
	waitTable   = "From a release to the next one's lock, in another client"
	meanColumn  = "mean, ms"
	messageLost = lockbeat + ", its message lost"
	deadInFront = lockbeat + ", one in front dead"
)

// wait measures how long the next one waits after a release: the usual time of
// each library; and for Lockbeat, when the message that wakes the waiter is
// lost, and when the process that stood in front of it was killed.
func wait(ctx context.Context, o options, f *figures) error {
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	times := 20
	if o.short {
		times = 2
	}
	for _, who := range o.contestants(libraries...) {
		err := f.inTime(ctx, o, waitTable, who, func(ctx context.Context) error {
			w, err := newWaiting(who, s.Addr(), s.Addr())
			if err != nil {
				return err
			}
			defer w.close()
			took := make([]time.Duration, times)
			for i := range took {
				if took[i], err = w.once(ctx, func() error { return nil }); err != nil {
					return err
				}
			}
			f.addTimes(waitTable, who, "", took)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(o.contestants(lockbeat)) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.bound())
	defer cancel()
	if err := f.lostMessage(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", messageLost, err)
	}
	return f.deadWaiter(ctx, s)
}

// addTimes adds what times of one round have in common.
func (f *figures) addTimes(table, row, what string, times []time.Duration) {
	slices.Sort(times)
	f.add(table, row, what+meanColumn, millis(mean(times)))
	f.add(table, row, what+"p50, ms", millis(times[len(times)/2]))
	f.add(table, row, what+"p99, ms", millis(times[len(times)*99/100]))
}

// waiting is a holder and a waiter, each with a client of its own.
type waiting struct{ holder, waiter library }

func newWaiting(who, holderAddr, waiterAddr string) (w waiting, err error) {
	if w.holder, err = connect(who, holderAddr); err != nil {
		return w, err
	}
	if w.waiter, err = connect(who, waiterAddr); err != nil {
		w.holder.close()
	}
	return w, err
}

func (w waiting) close() {
	w.waiter.close()
	w.holder.close()
}

// inLine is in what time a waiter has surely sent its request.
const inLine = 200 * time.Millisecond

// once measures from the return of a release to the waiter's lock. What is done
// beforehand is done while the waiter waits. The release comes at a random
// moment, so that who polls is met at any phase.
func (w waiting) once(ctx context.Context, beforehand func() error) (time.Duration, error) {
	name := fmt.Sprint("wait:", rand.Int64())
	mine, theirs := w.holder.mutex(name), w.waiter.mutex(name)
	if err := mine.lock(ctx); err != nil {
		return 0, err
	}
	var had time.Time
	ended := make(chan error, 1)
	go func() {
		err := theirs.lock(ctx)
		had = time.Now()
		ended <- err
	}()
	time.Sleep(inLine + rand.N(inLine))
	if err := errors.Join(beforehand(), mine.unlock(ctx)); err != nil {
		return 0, err
	}
	freed := time.Now()
	if err := <-ended; err != nil {
		return 0, err
	}
	// The waiter may have the lock before the release has returned.
	return max(had.Sub(freed), 0), theirs.unlock(ctx)
}

// lostMessage drops all messages to the waiter, whose connection stays as it
// is.
func (f *figures) lostMessage(ctx context.Context, s server) error {
	link, err := proxy.New(s.Addr())
	if err != nil {
		return err
	}
	defer link.Close()
	w, err := newWaiting(lockbeat, s.Addr(), link.Addr())
	if err != nil {
		return err
	}
	defer w.close()
	took, err := w.once(ctx, func() error {
		link.DropMatching(func(said []byte) bool { return bytes.Contains(said, []byte("message")) })
		return nil
	})
	if err == nil && link.Dropped() == 0 {
		err = errors.New("no message was dropped")
	}
	f.add(waitTable, messageLost, meanColumn, millis(took))
	return err
}

// deadWaiter kills a process that waits in front of the waiter.
func (f *figures) deadWaiter(ctx context.Context, s server) error {
	holder, err := connect(lockbeat, s.Addr())
	if err != nil {
		return err
	}
	defer holder.close()
	name := fmt.Sprint("dead:", rand.Int64())
	mine := holder.mutex(name)
	if err := mine.lock(ctx); err != nil {
		return err
	}
	all, err := startCrew(ctx, 2, setup{takingTurns, lockbeat, s.Addr(), ""})
	if err != nil {
		return err
	}
	defer all.end()
	front, next := all[0], all[1]
	t := turns{Name: name, Goroutines: 1}
	died, had := make(chan error, 1), make(chan error, 1)
	go func() { died <- front.ask(t, nil) }()
	time.Sleep(inLine)
	go func() { had <- next.ask(t, nil) }()
	time.Sleep(inLine)
	if err := front.cmd.Process.Kill(); err != nil {
		return err
	}
	if err := <-died; err == nil {
		return errors.New("who stood in front did not die")
	}
	if err := mine.unlock(ctx); err != nil {
		return err
	}
	freed := time.Now()
	err = <-had
	f.add(waitTable, deadInFront, meanColumn, millis(time.Since(freed)))
	return err
}
