package main

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// lockWait is how long a call stands in line. The default, 10 s, suits most servers better.
	lockWait = 5 * time.Second
	// retryIn is about when refused calls are told to come back. By default that is a second at least.
	retryIn = 600 * time.Millisecond
)

// newServer returns a server. Everything about locks is said here: all ways to take money from an account exclude each other, on
// all servers, since they have the same key. The key of a stream is that of its first message.
func newServer(k *renewer.Keeper, l *ledger.Ledger) *grpc.Server {
	account := func(r interface{ GetFrom() string }) string { return lockmw.Key("account", r.GetFrom()) }
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(bank.Bank_Transfer_FullMethodName, account), grpcmw.Wait(lockWait)),
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(bank.Bank_Withdraw_FullMethodName, account),
				grpcmw.Refuse(), grpcmw.RetryIn(retryIn)), // who stands at a cash machine won't wait
		),
		grpc.StreamInterceptor(
			grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(bank.Bank_Counter_FullMethodName, account), grpcmw.Wait(lockWait))),
	)
	bank.RegisterBankServer(server, service{ledger: l})
	reflection.Register(server) // which has no rule, and so no lock; grpcurl asks it
	return server
}

// service has the handlers. They know nothing of locks.
type service struct {
	bank.UnimplementedBankServer

	ledger *ledger.Ledger
}

func (s service) Transfer(ctx context.Context, r *bank.TransferRequest) (*bank.Receipt, error) {
	return s.carryOut(ctx, ledger.Order{From: r.GetFrom(), To: r.GetTo(), Amount: int(r.GetAmount()), Seconds: r.GetSeconds()})
}

func (s service) Withdraw(ctx context.Context, r *bank.WithdrawRequest) (*bank.Receipt, error) {
	return s.carryOut(ctx, ledger.Order{From: r.GetFrom(), To: "cash", Amount: int(r.GetAmount())})
}

// UnlockedTransfer is the same as Transfer, to see what the lock is for: it has no rule.
func (s service) UnlockedTransfer(ctx context.Context, r *bank.TransferRequest) (*bank.Receipt, error) {
	return s.Transfer(ctx, r)
}

func (s service) Counter(stream grpc.BidiStreamingServer[bank.TransferRequest, bank.Receipt]) error {
	account := ""
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case account != "" && r.GetFrom() != account: // the lock is that of the first message
			return status.Errorf(codes.InvalidArgument, "this counter is for account %q; open another one", account)
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

func (s service) carryOut(ctx context.Context, o ledger.Order) (*bank.Receipt, error) {
	left, err := s.ledger.Transfer(ctx, o)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &bank.Receipt{Account: o.From, Balance: int32(left)}, nil
}
