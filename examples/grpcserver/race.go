package main

import (
	"context"

	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

// races makes many transfers at once, without the lock and with it.
func (p *play) races(ctx context.Context) error {
	return p.Races(ctx, p.ledger, p.lane("open", bank.Bank_UnlockedTransfer_FullMethodName),
		p.lane("safe", bank.Bank_Transfer_FullMethodName))
}

func (p *play) lane(account, method string) stage.Lane {
	order := &bank.TransferRequest{From: account, To: "bob", Amount: 1, Seconds: 0.02}
	transfer := func(server int) call { return call{p.servers[server], method, order} }
	return stage.Lane{
		Account:  account,
		Commands: [2]string{transfer(0).grpcurl(), transfer(1).grpcurl()},
		Send: func(ctx context.Context, server int) bool {
			return transfer(server).make(ctx).is(codes.OK, "", false)
		},
	}
}

// stale is a transfer that comes without a lock to an account that has been written to under one.
func (p *play) stale(ctx context.Context) error {
	p.Title("7. Somebody forgets the lock, on an account that others use with it: the ledger " +
		"looks at fencing tokens")
	before, _ := p.ledger.Balance("safe")
	o := p.show(ctx, call{
		p.servers[1], bank.Bank_UnlockedTransfer_FullMethodName,
		&bank.TransferRequest{From: "safe", To: "bob", Amount: 1},
	})
	after, _ := p.ledger.Balance("safe")
	p.Claim("a write with an old fencing token is refused", o.brief(),
		o.is(codes.FailedPrecondition, "", false) && before == after)
	return context.Cause(ctx)
}
