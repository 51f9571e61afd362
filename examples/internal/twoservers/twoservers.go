// Package twoservers is the story that httpserver and grpcserver tell: clients of a bank that has
// two servers, and of which each account is locked while money is taken from it.
package twoservers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
)

// Funds is what there is on an account in the beginning.
const Funds = 1000

// Transfer moves 1 from an account to bob's, and takes some seconds for it. server is 0 or 1.
type Transfer = func(server int, from string, seconds float64) Call

// Bank is the bank as its clients see it.
type Bank struct {
	*demo.Demo

	Ledger   *ledger.Ledger
	Transfer Transfer
	// Withdraw takes 20 from an account, unless the account is locked.
	Withdraw func(server int, from string) Call
	// What replies say if all is well, and if another call holds the lock.
	OK, Busy string

	acts int
}

// NewLedger opens the accounts of the story.
func NewLedger() *ledger.Ledger {
	return ledger.New(map[string]int{
		"ada": Funds, "bob": 0, "open": Funds, "safe": Funds, "cash": 0,
	})
}

// Call is what a client sends, beside the command that does the same in a shell.
type Call struct {
	Command string
	Send    func(context.Context) Reply
}

// Reply is what came.
type Reply struct {
	Says    string        // what a program goes by, as of Bank.OK
	Lines   []string      // what is printed
	Balance int           // what is left on the account, if all is well
	Took    time.Duration // set by Bank.Begin
}

// Brief is a reply in a few words.
func (r Reply) Brief() string { return r.Says + " after " + demo.Span(r.Took) }

// Act prints the numbered heading of what comes next.
func (b *Bank) Act(format string, args ...any) {
	b.acts++
	b.Title("%d. %s", b.acts, fmt.Sprintf(format, args...))
}

// Show prints a call, sends it, and prints what came.
func (b *Bank) Show(ctx context.Context, mark string, c Call) Reply {
	return b.Answer(mark, <-b.Begin(ctx, mark, c))
}

// Begin prints a call and sends it, while others are sent.
func (b *Bank) Begin(ctx context.Context, mark string, c Call) <-chan Reply {
	b.Print("%-4s$ %s", mark, c.Command)
	came := make(chan Reply, 1)
	go func() {
		begun := time.Now()
		r := c.Send(ctx)
		r.Took = time.Since(begun)
		came <- r
	}()
	return came
}

// Answer prints what came, and returns it.
func (b *Bank) Answer(mark string, r Reply) Reply {
	b.Print("%-4s> after %s", mark, demo.Span(r.Took))
	for _, line := range r.Lines {
		b.Print("      %s", line)
	}
	return r
}

// Tell tells the story, with further acts.
func (b *Bank) Tell(ctx context.Context, further ...func(context.Context) error) error {
	b.Print("Of all that take money from one account one runs at a time, on whichever server. " +
		"The handlers know nothing of that.")
	acts := append([]func(context.Context) error{b.together}, further...)
	for _, act := range append(acts, b.locked) {
		if err := act(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// together are three calls for one account: the first takes its time, the second waits for it, the
// third does not.
func (b *Bank) together(ctx context.Context) error {
	b.Act("A transfer that takes its time; meanwhile another one, and a customer at a cash " +
		"machine, both on the other server")
	first := b.Begin(ctx, "[1]", b.Transfer(0, "ada", 2))
	if err := b.Ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	second := b.Begin(ctx, "[2]", b.Transfer(1, "ada", 0))
	refused := b.Show(ctx, "[3]", b.Withdraw(1, "ada"))
	one, two := b.Answer("[1]", <-first), b.Answer("[2]", <-second)
	b.Claim("another one on the other server waits its turn",
		two.Says == b.OK && two.Balance == one.Balance-1, "%s", two.Brief())
	b.Claim("one that won't wait is refused at once", refused.Says == b.Busy, "%s",
		refused.Brief())
	b.Claim("the first is not disturbed", one.Says == b.OK, "%s", one.Brief())
	return nil
}

// Racers is how many transfers a race makes at once.
const Racers = 40

// Unlocked is an act: what comes of a race of transfers without their lock.
func (b *Bank) Unlocked(ctx context.Context, transfer Transfer) {
	ok, left, _ := b.race(ctx, "without the lock", "open", transfer)
	b.Claim("race without the lock: the balance is wrong", left != Funds-ok,
		"%d; %d would be right", left, Funds-ok)
}

func (b *Bank) locked(ctx context.Context) error {
	ok, left, most := b.race(ctx, "under the lock", "safe", b.Transfer)
	b.Claim("race with the lock: the balance is right", left == Funds-ok && ok == Racers,
		"%d, with %d of %d carried out", left, ok, Racers)
	b.Claim("race with the lock: most transfers at once", most == 1, "%d", most)
	return nil
}

// race makes transfers on both servers at once. It returns how many were carried out, what is left,
// and how many were at work at once.
func (b *Bank) race(
	ctx context.Context, how, from string, transfer Transfer,
) (ok, left, most int) {
	b.Act("%d transfers of 1 at once from an account with %d, %s", Racers, Funds, how)
	calls := [2]Call{transfer(0, from, 0.01), transfer(1, from, 0.01)}
	b.Print("    $ for i in $(seq %d); do\n        %s &\n        %s &\n      done; wait", Racers/2,
		calls[0].Command, calls[1].Command)
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
	left, _, most = b.Ledger.Account(from)
	b.Print("    %d are carried out; %d are left; the bank's books are wrong by %d", ok, left,
		left-(Funds-ok))
	return ok, left, most
}
