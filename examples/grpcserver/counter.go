package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
)

// Counter carries out one transfer after the other. The lock is that of the first message, so a
// second account is refused rather than served without a lock.
func (s service) Counter(
	stream grpc.BidiStreamingServer[bank.TransferRequest, bank.Receipt],
) error {
	account := ""
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case account != "" && r.GetFrom() != account:
			return status.Errorf(codes.InvalidArgument,
				"this counter is for account %q; open another one", account)
		}
		account = r.GetFrom()
		receipt, err := s.Transfer(stream.Context(), r)
		if err != nil {
			return err
		}
		if err := stream.Send(receipt); err != nil {
			return err
		}
	}
}

// address says who makes a call. Behind a login it would be the account that logged in.
func address(ctx context.Context) (host string) {
	if p, ok := peer.FromContext(ctx); ok {
		host, _, _ = net.SplitHostPort(p.Addr.String())
	}
	return host
}

// counter is a customer who has several transfers made on one stream, which is locked from its
// first message to its end; it ends when Redis is gone.
func counter(ctx context.Context, b *twoservers.Bank, conn *grpc.ClientConn) error {
	b.Act("A customer at the counter: one stream, locked from its first message on; between two " +
		"messages Redis is stopped")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	b.Print("[1] $ grpcurl -plaintext -d @ %s bank.Bank/Counter", conn.Target())
	stream, err := bank.NewBankClient(conn).Counter(ctx)
	if err != nil {
		return err
	}
	one, _ := ask(b, stream, "ada") // the claims say what went wrong
	kept := b.Show(ctx, "[2]", b.Withdraw(1, "ada"))
	two, _ := ask(b, stream, "ada")
	b.Stop(1)
	down := b.Show(ctx, "[3]", b.Withdraw(1, "bob"))
	_, err = stream.Recv()
	gone := reply(nil, err, stream.Trailer())
	gone.Took = time.Since(begun)
	b.Answer("[1]", gone)
	b.Resume()

	b.Claim("a stream has one lock for all of its messages", two == one-1,
		"%d and %d left on the account", one, two)
	b.Claim("others are kept out of its account between two messages", kept.Says != ok, "%s",
		kept.Brief())
	b.Claim("no answer about locks is never \"busy\", and runs nothing", down.Says == unavailable,
		"%s", down.Brief())
	b.Claim("a lock lost in the middle ends the stream", gone.Says == lost, "%s", gone.Brief())
	return nil
}

// ask has a transfer made on a stream, and prints it. It returns what is left.
func ask(
	b *twoservers.Bank, stream grpc.BidiStreamingClient[bank.TransferRequest, bank.Receipt],
	from string,
) (left int32, err error) {
	order := &bank.TransferRequest{From: from, To: "bob", Amount: 1}
	_ = stream.Send(order) // Recv says why not
	receipt, err := stream.Recv()
	b.Print("[1] < %s", asJSON(order))
	b.Print("[1] > %s", asJSON(receipt))
	return receipt.GetBalance(), err
}
