package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	racers = 40 // transfers at once
	funds  = 1000
)

// races sends many transfers at once, without the lock and with it.
func (p *play) races(ctx context.Context) error {
	p.Title("5. %d transfers of 1 at once from an account with %d, by the same handler without the lock", racers, funds)
	ok, left := p.race(ctx, "open", "/unlocked/accounts/open/transfer")
	p.Claim("race without the lock: the balance is wrong", fmt.Sprintf("%d; %d would be right", left, funds-ok), left != funds-ok)

	p.Title("6. The same with the lock")
	ok, left = p.race(ctx, "safe", "/accounts/safe/transfer")
	p.Claim("race with the lock: the balance is right", fmt.Sprintf("%d, with %d of %d carried out", left, ok, racers),
		left == funds-ok && ok == racers)
	p.Claim("most transfers at once: without, and with the lock", fmt.Sprintf("%d, and %d", p.ledger.Most("open"), p.ledger.Most("safe")),
		p.ledger.Most("open") > 1 && p.ledger.Most("safe") == 1)
	return ctx.Err()
}

// race sends transfers to both servers at once. It returns how many were carried out, and what is left.
func (p *play) race(ctx context.Context, account, path string) (ok, left int) {
	const order = `{"to":"bob","amount":1,"seconds":0.02}`
	p.Command("", fmt.Sprintf("for i in $(seq %d); do\n  %s &\n  %s &\ndone; wait",
		racers/2, post(p.servers[0], path, order).curl(), post(p.servers[1], path, order).curl()))
	total, begun := p.ledger.Total(), time.Now()
	var all sync.WaitGroup
	var good atomic.Int64
	for i := range racers {
		all.Go(func() {
			if r := p.send(ctx, post(p.servers[i%2], path, order)); r.is(http.StatusOK, "", false) {
				good.Add(1)
			}
		})
	}
	all.Wait()
	ok = int(good.Load())
	left, _ = p.ledger.Balance(account)
	p.Answer("", fmt.Sprintf("%d of %d answered with 200, so that %d should be left", ok, racers, funds-ok), time.Since(begun),
		fmt.Sprintf("%d are left: the bank has lost %d", left, p.ledger.Total()-total))
	return ok, left
}

// stale is a transfer that comes without a lock to an account that has been written to under one.
func (p *play) stale(ctx context.Context) error {
	p.Title("7. Somebody forgets the lock, on an account that others use with it: the ledger looks at fencing tokens")
	r := p.show(ctx, post(p.servers[1], "/unlocked/accounts/safe/transfer", `{"to":"bob","amount":1}`))
	left, _ := p.ledger.Balance("safe")
	p.Claim("a write with an old fencing token is refused", r.brief(), r.is(http.StatusUnprocessableEntity, "", false) && left == funds-racers)
	return ctx.Err()
}
