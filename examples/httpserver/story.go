package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
)

// funds is what there is on an account in the beginning.
const funds = 1000

// transfer moves 1 from an account to bob's, and takes some seconds for it.
// server is 0 or 1.
type transfer = func(server int, from string, seconds float64) request

// story is the bank as its clients see it.
type story struct {
	*demo.Demo

	ledger   *ledger.Ledger
	transfer transfer
	// withdraw takes 20 from an account, unless the account is locked.
	withdraw func(server int, from string) request

	acts int
}

// newLedger opens the accounts of the story.
func newLedger() *ledger.Ledger {
	return ledger.New(map[string]int{
		"ada": funds, "bob": 0, "open": funds, "safe": funds, "cash": 0,
	})
}

// reply is what came.
type reply struct {
	says    string        // what a program goes by
	lines   []string      // what is printed
	balance int           // what is left on the account, if all is well
	took    time.Duration // set by begin
}

// brief is a reply in a few words.
func (r reply) brief() string { return r.says + " after " + demo.Span(r.took) }

// act prints the numbered heading of what comes next.
func (b *story) act(format string, args ...any) {
	b.acts++
	b.Title("%d. %s", b.acts, fmt.Sprintf(format, args...))
}

// show prints a call, sends it, and prints what came.
func (b *story) show(ctx context.Context, mark string, c request) reply {
	return b.answer(mark, <-b.begin(ctx, mark, c))
}

// begin prints a call and sends it, while others are sent.
func (b *story) begin(ctx context.Context, mark string, c request) <-chan reply {
	b.Print("%-4s$ %s", mark, c.curl())
	came := make(chan reply, 1)
	go func() {
		begun := time.Now()
		r := c.send(ctx)
		r.took = time.Since(begun)
		came <- r
	}()
	return came
}

// answer prints what came, and returns it.
func (b *story) answer(mark string, r reply) reply {
	b.Print("%-4s> after %s", mark, demo.Span(r.took))
	for _, line := range r.lines {
		b.Print("      %s", line)
	}
	return r
}

// together are three calls for one account: the first takes its time, the
// second waits for it, the third does not.
func (b *story) together(ctx context.Context) error {
	b.act("A transfer that takes its time; meanwhile another one, and a customer at a cash " +
		"machine, both on the other server")
	first := b.begin(ctx, "[1]", b.transfer(0, "ada", 2))
	if err := b.ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	second := b.begin(ctx, "[2]", b.transfer(1, "ada", 0))
	refused := b.show(ctx, "[3]", b.withdraw(1, "ada"))
	one, two := b.answer("[1]", <-first), b.answer("[2]", <-second)
	b.Claim("another one on the other server waits its turn",
		two.says == ok && two.balance == one.balance-1, "%s", two.brief())
	b.Claim("one that won't wait is refused at once", refused.says == busy, "%s",
		refused.brief())
	b.Claim("the first is not disturbed", one.says == ok, "%s", one.brief())
	return nil
}

// racers is how many transfers a race makes at once.
const racers = 40

// unlocked is what comes of a race of transfers without their lock.
func (b *story) unlocked(ctx context.Context, t transfer) {
	good, left, _ := b.race(ctx, "without the lock", "open", t)
	b.Claim("race without the lock: the balance is wrong", left != funds-good,
		"%d; %d would be right", left, funds-good)
}

func (b *story) locked(ctx context.Context) {
	good, left, most := b.race(ctx, "under the lock", "safe", b.transfer)
	b.Claim("race with the lock: the balance is right", left == funds-good && good == racers,
		"%d, with %d of %d carried out", left, good, racers)
	b.Claim("race with the lock: most transfers at once", most == 1, "%d", most)
}

// race makes transfers on both servers at once. It returns how many were
// carried out, what is left, and how many were at work at once.
func (b *story) race(
	ctx context.Context, how, from string, t transfer,
) (good, left, most int) {
	b.act("%d transfers of 1 at once from an account with %d, %s", racers, funds, how)
	calls := [2]request{t(0, from, 0.01), t(1, from, 0.01)}
	b.Print("    $ for i in $(seq %d); do\n        %s &\n        %s &\n      done; wait", racers/2,
		calls[0].curl(), calls[1].curl())
	var all sync.WaitGroup
	var carried atomic.Int64
	for i := range racers {
		all.Go(func() {
			if calls[i%2].send(ctx).says == ok {
				carried.Add(1)
			}
		})
	}
	all.Wait()
	good = int(carried.Load())
	left, _, most = b.ledger.Account(from)
	b.Print("    %d are carried out; %d are left; the bank's books are wrong by %d", good, left,
		left-(funds-good))
	return good, left, most
}
