// Grpcserver shows gRPC calls under a lock that their handlers never see. Two servers, "bank-1" and
// "bank-2", take money from the same accounts. Of the calls for one account one runs at a time, on
// whichever server.
//
//	go run ./examples/grpcserver                          # Redis runs inside the program
//	go run ./examples/grpcserver -redis localhost:6379    # on your own, left as it was found
//
// It makes calls, real ones, and prints them as grpcurl commands with what came: what a client gets
// that waits in line, is refused, or has a stream open when Redis is gone. Then it races transfers.
// The exit status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write; the service is in bank/bank.proto. The rest plays
// the clients: main.go and counter.go say what happens, grpcurl.go calls and prints. The parts that
// httpserver shares are in internal/twoservers.
package main

import (
	"context"
	"fmt"

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
	unavailable = "Unavailable " + grpcmw.ReasonUnavailable + " +RetryInfo +pushback"
	lost        = "Aborted " + grpcmw.ReasonLost
)

func tell(ctx context.Context, d *demo.Demo) error {
	b, conns, err := open(d)
	if err != nil {
		return err
	}
	d.Print("Two gRPC servers share the accounts of a bank: bank-1, %s, and bank-2, %s. Redis: %s.",
		conns[0].Target(), conns[1].Target(), d.Where())
	return b.Tell(ctx, func(ctx context.Context) error { return counter(ctx, b, conns[0]) })
}

// open opens the bank, with its two servers.
func open(d *demo.Demo) (*twoservers.Bank, [2]*grpc.ClientConn, error) {
	b := &twoservers.Bank{
		Demo: d, Ledger: twoservers.NewLedger(), OK: ok, Busy: busy,
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
		conns[i], err = grpc.NewClient(addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, conns, err
		}
		d.AtEnd(func(context.Context) error { return conns[i].Close() })
	}
	b.Transfer = func(server int, from string, seconds float64) twoservers.Call {
		return call(conns[server], bank.Bank_Transfer_FullMethodName,
			&bank.TransferRequest{From: from, To: "bob", Amount: 1, Seconds: seconds})
	}
	b.Withdraw = func(server int, from string) twoservers.Call {
		return call(conns[server], bank.Bank_Withdraw_FullMethodName,
			&bank.TransferRequest{From: from, To: "cash", Amount: 20})
	}
	return b, conns, nil
}
