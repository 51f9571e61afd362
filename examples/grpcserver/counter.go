package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// counter is a customer who has several transfers made on one stream, which
// is locked from its first message to its end; it ends when Redis is gone.
func (p *play) counter(ctx context.Context) error {
	p.Title("4. A customer at the counter: one stream, locked from its first message on; between " +
		"two messages Redis is stopped")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	p.Command("[1]", fmt.Sprintf("grpcurl -plaintext -d @ %s %s", p.servers[0].Target(),
		strings.TrimPrefix(bank.Bank_Counter_FullMethodName, "/")))
	stream, err := bank.NewBankClient(p.servers[0]).Counter(ctx)
	if err != nil {
		return err
	}
	one := p.ask(stream)

	q := call{
		p.servers[1], bank.Bank_Withdraw_FullMethodName,
		&bank.WithdrawRequest{From: "ada", Amount: 20},
	}
	p.Command("[2]", q.grpcurl())
	busy := q.make(ctx)
	p.print("[2]", busy)
	two := p.ask(stream)

	p.Stop()
	q.in = &bank.WithdrawRequest{From: "bob", Amount: 20}
	p.Command("[3]", q.grpcurl())
	down := q.make(ctx)
	p.print("[3]", down)
	_, err = stream.Recv()
	lost := outcome{err: err, trailer: stream.Trailer(), took: time.Since(begun)}
	p.print("[1]", lost)
	p.Resume()

	p.Claim("a stream has one lock for all of its messages",
		fmt.Sprintf("%d and %d left on the account", one.GetBalance(), two.GetBalance()),
		two.GetBalance() == one.GetBalance()-10)
	p.Claim("others are kept out of its account between two messages", busy.brief(),
		busy.is(codes.Aborted, grpcmw.ReasonBusy, true))
	p.Claim("no answer about locks is never \"busy\", and runs nothing", down.brief(),
		down.is(codes.Unavailable, grpcmw.ReasonUnavailable, true))
	p.Claim("a lock lost in the middle ends the stream", lost.brief(),
		lost.is(codes.Aborted, grpcmw.ReasonLost, false))
	return context.Cause(ctx)
}

// ask has a transfer made, and prints it. It returns nil if the stream is over.
func (p *play) ask(
	stream grpc.BidiStreamingClient[bank.TransferRequest, bank.Receipt],
) *bank.Receipt {
	order := &bank.TransferRequest{From: "ada", To: "bob", Amount: 10}
	begun := time.Now()
	p.Print("    [1] > %s", asJSON(order))
	if stream.Send(order) != nil {
		return nil // Recv will tell why
	}
	receipt, err := stream.Recv()
	if err != nil {
		return nil
	}
	p.Answer("[1]", "< "+asJSON(receipt), time.Since(begun))
	return receipt
}
