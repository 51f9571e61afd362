package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// play is the story with all that it needs.
type play struct {
	*stage.Stage

	ledger  *ledger.Ledger
	servers [2]*grpc.ClientConn
	patient *grpc.ClientConn // to the second server, by a client with a retry policy
	tries   *attempts        // of that client
}

// tell is the story.
func tell(ctx context.Context, s *stage.Stage) error {
	p := &play{
		Stage: s,
		ledger: ledger.New(map[string]int{
			"ada": stage.Funds, "bob": 0, "open": stage.Funds,
			"safe": stage.Funds, "cash": 0,
		}),
		tries: new(attempts),
	}
	for i := range p.servers {
		addr, err := p.serve(fmt.Sprintf("bank-%d", i+1))
		if err != nil {
			return err
		}
		if p.servers[i], err = p.dial(addr); err != nil {
			return err
		}
	}
	var err error
	p.patient, err = p.dial(p.servers[1].Target(), grpc.WithDefaultServiceConfig(patience),
		grpc.WithStatsHandler(p.tries))
	if err != nil {
		return err
	}

	s.Print("Two gRPC servers share the accounts of a bank: bank-1, %s, and bank-2, %s.",
		p.servers[0].Target(), p.servers[1].Target())
	s.Print("Of the calls for one account one runs at a time, on whichever server. The handlers "+
		"know nothing of that. Redis: %s.", s.Where())
	for _, act := range []func(context.Context) error{
		p.alone, p.together, p.nameless, p.counter,
		p.races, p.stale,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server and returns its address.
func (p *play) serve(name string) (addr string, err error) {
	keeper, err := p.Keeper(name)
	if err != nil {
		return "", err
	}
	listener, err := p.Listener()
	if err != nil {
		return "", err
	}
	server := newServer(keeper, p.ledger)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	p.AtEnd(func(context.Context) error {
		server.Stop()
		if served := <-done; !errors.Is(served, grpc.ErrServerStopped) {
			return served
		}
		return nil
	})
	return listener.Addr().String(), nil
}

// alone is a call that nothing stands in the way of.
func (p *play) alone(ctx context.Context) error {
	p.Title("1. A transfer")
	o := p.show(ctx, call{
		p.servers[0], bank.Bank_Transfer_FullMethodName,
		&bank.TransferRequest{From: "ada", To: "bob", Amount: 10},
	})
	p.Claim("a transfer", o.brief(), o.is(codes.OK, "", false))
	return context.Cause(ctx)
}

// together are four calls for one account: one that takes its time,
// one that waits for it, one that does not, and one that comes back.
func (p *play) together(ctx context.Context) error {
	p.Title("2. A transfer that takes a second; meanwhile another one, and two people at a cash " +
		"machine, all on the other server")
	transfer, withdraw := bank.Bank_Transfer_FullMethodName, bank.Bank_Withdraw_FullMethodName
	first := p.start(ctx, "[1]",
		call{
			p.servers[0], transfer,
			&bank.TransferRequest{From: "ada", To: "bob", Amount: 10, Seconds: 1},
		})
	if err := p.ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	waiting := p.start(ctx, "[2]",
		call{p.servers[1], transfer, &bank.TransferRequest{From: "ada", To: "bob", Amount: 10}})
	cash := &bank.WithdrawRequest{From: "ada", Amount: 20}
	refused := p.start(ctx, "[3]", call{p.servers[1], withdraw, cash})
	c := <-refused
	patient := p.start(ctx, "[4]", call{p.patient, withdraw, cash})
	p.print("[3]", c)
	a, b, d := <-first, <-waiting, <-patient
	p.print("[1]", a)
	p.print("[2]", b)
	p.print("[4]", d)
	tries := p.tries.made.Load()
	p.Print("    [4] is by a Go client whose retry policy lists ABORTED; it came back when it "+
		"was told to, and was served at attempt %d.", tries)
	p.Claim("another one on the other server waits its turn", b.brief(),
		b.is(codes.OK, "", false) && b.receipt.GetBalance() == a.receipt.GetBalance()-10)
	p.Claim("one that won't wait is refused at once", c.brief(),
		c.is(codes.Aborted, grpcmw.ReasonBusy, true) &&
			len(c.trailer.Get("grpc-retry-pushback-ms")) == 1)
	p.Claim("one with grpc-go's own retry policy gets through",
		fmt.Sprintf("%s, in %d attempts", d.brief(), tries),
		d.is(codes.OK, "", false) && tries > 1)
	p.Claim("the first is not disturbed", a.brief(), a.is(codes.OK, "", false))
	return context.Cause(ctx)
}

// nameless is a call that names nothing that could be locked.
func (p *play) nameless(ctx context.Context) error {
	p.Title("3. A transfer from nobody")
	o := p.show(ctx, call{
		p.servers[0], bank.Bank_Transfer_FullMethodName,
		&bank.TransferRequest{To: "bob", Amount: 10},
	})
	p.Claim("a call without a key", o.brief(), o.is(codes.InvalidArgument, grpcmw.ReasonKey, false))
	return context.Cause(ctx)
}
