// Httpserver shows HTTP handlers under a lock that they never see. Two servers, "web-1" and
// "web-2", take money from the same accounts. Of the requests for one account one runs at a time,
// on whichever server.
//
//	go run ./examples/httpserver                          # Redis runs inside the program
//	go run ./examples/httpserver -redis localhost:6379    # on your own, left as it was found
//	go run ./examples/httpserver -stay                    # goes on, for a curl of your own
//
// It sends requests, real ones, and prints them as curl commands with their answers: what a client
// gets that waits in line, is refused, names nothing to lock, or comes when Redis is gone. Then it
// races transfers, without the lock and with it. The exit status is 1 if anything that it claims
// did not hold.
//
// Read app.go first: it is what you would write. The rest plays the clients: main.go says what
// happens, curl.go sends and prints. The parts that grpcserver shares are in internal/twoservers.
package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
)

func main() { demo.Main(demo.Setting{Program: "httpserver"}, tell) }

// What answers say: a status and, of a problem, its type, and whether it says when to come back.
const (
	ok          = "200"
	busy        = "409 TypeBusy +Retry-After"
	badRequest  = "400 TypeBadRequest"
	unavailable = "503 TypeUnavailable +Retry-After"
	lost        = "503 TypeLost +Retry-After"
)

func tell(ctx context.Context, d *demo.Demo) error {
	b := &twoservers.Bank{
		Demo: d, Ledger: twoservers.NewLedger(), OK: ok, Busy: busy, NoKey: badRequest,
		Refused: "422",
	}
	var urls [2]string
	for i := range urls {
		keeper, err := d.Keeper(fmt.Sprintf("web-%d", i+1), nil)
		if err != nil {
			return err
		}
		server := newServer(routes(keeper, b.Ledger))
		addr, err := d.Serve(server.Serve, server.Shutdown)
		if err != nil {
			return err
		}
		urls[i] = "http://" + addr
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: twoservers.Racers}}
	d.AtEnd(func(context.Context) error { client.CloseIdleConnections(); return nil })
	post := func(server int, path, body string) twoservers.Call {
		return request{http.MethodPost, urls[server] + path, "", body}.call(client)
	}
	const body = `{"to":"bob","amount":1,"seconds":%v}`
	b.Transfer = func(server int, from string, seconds float64) twoservers.Call {
		return post(server, "/accounts/"+from+"/transfer", fmt.Sprintf(body, seconds))
	}
	b.Unlocked = func(server int, from string, seconds float64) twoservers.Call {
		return post(server, "/unlocked/accounts/"+from+"/transfer", fmt.Sprintf(body, seconds))
	}
	b.Withdraw = func(server int, from string) twoservers.Call {
		return post(server, "/accounts/"+from+"/withdraw", "")
	}
	b.Nameless = request{ // 600 bytes, more than the name of a lock may have
		http.MethodPost, fmt.Sprintf("%s/accounts/%0600d/withdraw", urls[0], 0),
		urls[0] + "/accounts/$(printf %0600d 0)/withdraw", "",
	}.call(client)

	d.Print("Two HTTP servers share the accounts of a bank: web-1, %s, and web-2, %s. Redis: %s.",
		urls[0], urls[1], d.Where())
	return b.Tell(ctx, func(ctx context.Context) error { return cut(ctx, b) })
}

// cut is what becomes of requests when Redis is gone.
func cut(ctx context.Context, b *twoservers.Bank) error {
	b.Act("Redis is stopped, in the middle of a transfer")
	before, _ := b.Ledger.Balance("ada")
	began := time.Now()
	first := b.Begin(ctx, "[1]", b.Transfer(0, "ada", 2*demo.TTL.Seconds()))
	if err := b.Ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	b.Stop(1)
	down := b.Show(ctx, "[2]", b.Withdraw(1, "bob"))
	stopped := <-first
	b.Answer("[1]", stopped.Head, time.Since(began), stopped.Rest...)
	b.Resume()
	after, _ := b.Ledger.Balance("ada")
	b.Claim("no answer about locks is never \"busy\", and runs nothing", down.Says == unavailable,
		"%s", down.Brief())
	b.Claim("a lock lost in the middle stops the transfer", stopped.Says == lost, "%s",
		stopped.Brief())
	b.Claim("no money has been moved by it", before == after, "%d before, %d after", before, after)
	return nil
}
