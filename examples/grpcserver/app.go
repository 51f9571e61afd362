package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// newServer returns a server. Everything about locks is said here: all ways to take money from an
// account exclude each other, on all servers, since they have the same key. The key of a stream is
// that of its first message.
//
// Clients come from outside. What they can take hold of is bounded: by the options of the locks, by
// the keeper's renewer.Config.MaxHold, and, for clients that are gone, by gRPC's own.
func newServer(k *renewer.Keeper, l *ledger.Ledger) *grpc.Server {
	account := func(r *bank.TransferRequest) string {
		return lockmw.Key("account", r.GetFrom())
	}
	bounds := []grpcmw.Option{
		grpcmw.MaxWaitersPerCaller(50, address), // whatever their accounts
		grpcmw.StripFence(),
	}
	unary := func(opts ...grpcmw.Option) grpc.UnaryServerInterceptor {
		return grpcmw.UnaryServerInterceptor(k, append(opts, bounds...)...)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(
			unary(grpcmw.ForMethod(bank.Bank_Transfer_FullMethodName, account),
				grpcmw.Wait(5*time.Second)),
			// a customer at a cash machine won't wait
			unary(grpcmw.ForMethod(bank.Bank_Withdraw_FullMethodName, account),
				grpcmw.Refuse()),
		),
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, append(bounds,
			grpcmw.ForMethod(bank.Bank_Counter_FullMethodName, account),
			grpcmw.Wait(5*time.Second), grpcmw.Silence(20*time.Second))...)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute}), // finds dead peers
	)
	bank.RegisterBankServer(server, service{ledger: l})
	reflection.Register(server) // which has no rule, and so no lock; grpcurl asks it
	return server
}

// service has the handlers. They know nothing of locks. Counter is in counter.go.
type service struct {
	bank.UnimplementedBankServer

	ledger *ledger.Ledger
}

func (s service) Transfer(ctx context.Context, r *bank.TransferRequest) (*bank.Receipt, error) {
	left, err := s.ledger.Transfer(ctx, ledger.Order{
		From: r.GetFrom(), To: r.GetTo(), Amount: int(r.GetAmount()), Seconds: r.GetSeconds(),
	})
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &bank.Receipt{Balance: int32(left)}, nil
}

func (s service) Withdraw(ctx context.Context, r *bank.TransferRequest) (*bank.Receipt, error) {
	return s.Transfer(ctx, r)
}
