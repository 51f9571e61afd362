package twoservers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Racers is how many transfers a race makes at once.
const Racers = 40

// races makes many transfers at once, without the lock and with it.
func (b *Bank) races(ctx context.Context) error {
	b.Act("%d transfers of 1 at once from an account with %d, by the same handler without the lock",
		Racers, Funds)
	ok, left := b.race(ctx, "open", b.Unlocked)
	b.Claim("race without the lock: the balance is wrong", left != Funds-ok,
		"%d; %d would be right", left, Funds-ok)
	b.Act("The same with the lock")
	ok, left = b.race(ctx, "safe", b.Transfer)
	b.Claim("race with the lock: the balance is right", left == Funds-ok && ok == Racers,
		"%d, with %d of %d carried out", left, ok, Racers)
	without, with := b.Ledger.Most("open"), b.Ledger.Most("safe")
	b.Claim("most transfers at once: without, and with the lock", without > 1 && with == 1,
		"%d, and %d", without, with)
	return nil
}

// race makes transfers on both servers at once. It returns how many were carried out, and what is
// left.
func (b *Bank) race(
	ctx context.Context, from string, transfer func(server int, from string, seconds float64) Call,
) (ok, left int) {
	calls := [2]Call{transfer(0, from, 0.01), transfer(1, from, 0.01)}
	b.Command("", fmt.Sprintf("for i in $(seq %d); do\n  %s &\n  %s &\ndone; wait", Racers/2,
		calls[0].Command, calls[1].Command))
	total, begun := b.Ledger.Total(), time.Now()
	var all sync.WaitGroup
	var good atomic.Int64
	for i := range Racers {
		all.Go(func() {
			if calls[i%2].Send(ctx).Says == b.OK {
				good.Add(1)
			}
		})
	}
	all.Wait()
	ok = int(good.Load())
	left, _ = b.Ledger.Balance(from)
	b.Answer("", fmt.Sprintf("%d of %d carried out, so that %d should be left", ok, Racers,
		Funds-ok), time.Since(begun),
		fmt.Sprintf("%d are left; the bank's books are wrong by %d", left, b.Ledger.Total()-total))
	return ok, left
}
