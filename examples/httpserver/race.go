package main

import (
	"context"
	"net/http"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

// races sends many transfers at once, without the lock and with it.
func (p *play) races(ctx context.Context) error {
	return p.Races(ctx, p.ledger, p.lane("open", "/unlocked/accounts/open/transfer"),
		p.lane("safe", "/accounts/safe/transfer"))
}

func (p *play) lane(account, path string) stage.Lane {
	transfer := func(server int) request {
		return post(p.servers[server], path, `{"to":"bob","amount":1,"seconds":0.02}`)
	}
	return stage.Lane{
		Account:  account,
		Commands: [2]string{transfer(0).curl(), transfer(1).curl()},
		Send: func(ctx context.Context, server int) bool {
			return p.send(ctx, transfer(server)).is(http.StatusOK, "", false)
		},
	}
}

// stale is a transfer that comes without a lock to an account that has been written to under one.
func (p *play) stale(ctx context.Context) error {
	p.Title("7. Somebody forgets the lock, on an account that others use with it: the ledger " +
		"looks at fencing tokens")
	before, _ := p.ledger.Balance("safe")
	r := p.show(ctx, post(p.servers[1], "/unlocked/accounts/safe/transfer",
		`{"to":"bob","amount":1}`))
	after, _ := p.ledger.Balance("safe")
	p.Claim("a write with an old fencing token is refused", r.brief(),
		r.is(http.StatusUnprocessableEntity, "", false) && before == after)
	return context.Cause(ctx)
}
