package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
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
	// retryIn is about when refused calls are told to come back. By
	// default that is a second at least.
	retryIn = 600 * time.Millisecond
	// silence is how long a customer may stand at a counter and say nothing. Others wait for the
	// account.
	silence = 20 * time.Second
	// perCaller is how many calls of one address may wait, whatever their accounts.
	perCaller = 50
)

// newServer returns a server. Everything about locks is said here: all ways
// to take money from an account exclude each other, on all servers, since
// they have the same key. The key of a stream is that of its first message.
//
// Clients come in from outside. What they can take hold of is bounded: by the locks' options, by
// the keeper's renewer.Config.MaxHold, and, for peers who are gone or ask for too much, by gRPC's
// own.
func newServer(k *renewer.Keeper, l *ledger.Ledger) *grpc.Server {
	account := func(r interface{ GetFrom() string }) string {
		return lockmw.Key("account", r.GetFrom())
	}
	bounds := []grpcmw.ServerOption{
		grpcmw.MaxWaitersPerCaller(perCaller, address),
		grpcmw.StripFence(),
	}
	unary := func(opts ...grpcmw.ServerOption) grpc.UnaryServerInterceptor {
		return grpcmw.UnaryServerInterceptor(k, append(opts, bounds...)...)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(
			unary(grpcmw.ForMethod(bank.Bank_Transfer_FullMethodName, account),
				grpcmw.Wait(lockWait)),
			unary(grpcmw.ForMethod(bank.Bank_Withdraw_FullMethodName, account),
				// who stands at a cash machine won't wait
				grpcmw.Refuse(), grpcmw.RetryIn(retryIn)),
		),
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, append(bounds,
			grpcmw.ForMethod(bank.Bank_Counter_FullMethodName, account), grpcmw.Wait(lockWait),
			grpcmw.Silence(silence))...)),
		grpc.MaxConcurrentStreams(100), // on one connection
		grpc.ConnectionTimeout(10*time.Second),
		// finds dead peers
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:    30 * time.Second,
			Timeout: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
	)
	bank.RegisterBankServer(server, service{ledger: l})
	reflection.Register(server) // which has no rule, and so no lock; grpcurl asks it
	return server
}

// address says who makes a call. Behind a login it would be the account that logged in.
func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}

// service has the handlers. They know nothing of locks.
type service struct {
	bank.UnimplementedBankServer

	ledger *ledger.Ledger
}

func (s service) Transfer(ctx context.Context, r *bank.TransferRequest) (*bank.Receipt, error) {
	return s.carryOut(ctx, ledger.Order{
		From: r.GetFrom(), To: r.GetTo(),
		Amount: int(r.GetAmount()), Seconds: r.GetSeconds(),
	})
}

func (s service) Withdraw(ctx context.Context, r *bank.WithdrawRequest) (*bank.Receipt, error) {
	return s.carryOut(ctx, ledger.Order{From: r.GetFrom(), To: "cash", Amount: int(r.GetAmount())})
}

// UnlockedTransfer is the same as Transfer, to see what the lock is for: it has no rule.
func (s service) UnlockedTransfer(
	ctx context.Context, r *bank.TransferRequest,
) (*bank.Receipt, error) {
	return s.Transfer(ctx, r)
}

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
		case account != "" && r.GetFrom() != account: // the lock is that of the first message
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

func (s service) carryOut(ctx context.Context, o ledger.Order) (*bank.Receipt, error) {
	left, err := s.ledger.Transfer(ctx, o)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &bank.Receipt{Account: o.From, Balance: int32(left)}, nil
}
