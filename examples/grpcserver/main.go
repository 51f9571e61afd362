// Grpcserver shows gRPC calls under a lock that their handlers never see. Two servers, "bank-1" and
// "bank-2", take money from the same accounts. Of the calls for one account one runs at a time, on
// whichever server.
//
//	go run ./examples/grpcserver                          # Redis runs inside the program
//	go run ./examples/grpcserver -redis localhost:6379    # on your own, left as it was found
//	go run ./examples/grpcserver -stay                    # goes on, for a grpcurl of your own
//
// It makes calls, real ones, and prints them as grpcurl commands with what came: what a client gets
// that waits in line, is refused, retries, names nothing to lock, or has a stream open when Redis
// is gone. Then it races transfers, without the lock and with it. The exit status is 1 if anything
// that it claims did not hold.
//
// Read app.go first: it is what you would write; the service is in bank/bank.proto. The rest plays
// the clients: main.go and counter.go say what happens, grpcurl.go calls and prints. The parts that
// httpserver shares are in internal/twoservers.
package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

func main() { demo.Main(demo.Setting{Program: "grpcserver"}, tell) }

// What replies say: a code, the reason, and whether they say when to come back.
const (
	ok          = "OK"
	busy        = "Aborted " + grpcmw.ReasonBusy + " +RetryInfo +pushback"
	noKey       = "InvalidArgument " + grpcmw.ReasonKey
	unavailable = "Unavailable " + grpcmw.ReasonUnavailable + " +RetryInfo +pushback"
	lost        = "Aborted " + grpcmw.ReasonLost
)

// retryPolicy is that of a client that comes back when it was refused. The servers' trailer says
// when.
const retryPolicy = `{"methodConfig": [{"name": [{"service": "bank.Bank"}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "1s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]}}]}`

func tell(ctx context.Context, d *demo.Demo) error {
	b, conns, err := open(d)
	if err != nil {
		return err
	}
	d.Print("Two gRPC servers share the accounts of a bank: bank-1, %s, and bank-2, %s. Redis: %s.",
		conns[0].Target(), conns[1].Target(), d.Where())
	return b.Tell(ctx,
		func(ctx context.Context) error { return patient(ctx, b, conns[1].Target()) },
		func(ctx context.Context) error { return counter(ctx, b, conns[0]) })
}

// open opens the bank, with its two servers.
func open(d *demo.Demo) (*twoservers.Bank, [2]*grpc.ClientConn, error) {
	b := &twoservers.Bank{
		Demo: d, Ledger: twoservers.NewLedger(), OK: ok, Busy: busy, NoKey: noKey,
		Refused: "FailedPrecondition",
	}
	var conns [2]*grpc.ClientConn
	for i := range conns {
		keeper, err := d.Keeper(fmt.Sprintf("bank-%d", i+1), nil)
		if err != nil {
			return nil, conns, err
		}
		server := newServer(keeper, b.Ledger)
		stop := func(context.Context) error { server.Stop(); return nil }
		addr, err := d.Serve(server.Serve, stop)
		if err != nil {
			return nil, conns, err
		}
		if conns[i], err = dial(d, addr); err != nil {
			return nil, conns, err
		}
	}
	transfer := func(method string) func(int, string, float64) twoservers.Call {
		return func(server int, from string, seconds float64) twoservers.Call {
			return call(conns[server], method,
				&bank.TransferRequest{From: from, To: "bob", Amount: 1, Seconds: seconds})
		}
	}
	b.Transfer = transfer(bank.Bank_Transfer_FullMethodName)
	b.Unlocked = transfer(bank.Bank_UnlockedTransfer_FullMethodName)
	b.Withdraw = func(server int, from string) twoservers.Call {
		return withdraw(conns[server], from)
	}
	b.Nameless = b.Transfer(0, "", 0)
	return b, conns, nil
}

func withdraw(conn *grpc.ClientConn, from string) twoservers.Call {
	return call(conn, bank.Bank_Withdraw_FullMethodName,
		&bank.WithdrawRequest{From: from, Amount: 20})
}

// dial connects a client.
func dial(d *demo.Demo, addr string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(addr,
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, err
	}
	d.AtEnd(func(context.Context) error { return conn.Close() })
	return conn, nil
}

// patient is a Go client with a retry policy: it comes back when it is told to.
func patient(ctx context.Context, b *twoservers.Bank, addr string) error {
	b.Act("A Go client whose retry policy lists ABORTED, at a cash machine, during a transfer")
	var tries atomic.Int64
	conn, err := dial(b.Demo, addr, grpc.WithDefaultServiceConfig(retryPolicy),
		grpc.WithStatsHandler(attempts{made: &tries}))
	if err != nil {
		return err
	}
	first := b.Begin(ctx, "[1]", b.Transfer(0, "ada", 0.3))
	if err := b.Ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	r := b.Show(ctx, "[2]", withdraw(conn, "ada"))
	<-first
	b.Claim("one with grpc-go's own retry policy gets through", r.Says == ok && tries.Load() > 1,
		"%s, in %d attempts", r.Brief(), tries.Load())
	return nil
}
