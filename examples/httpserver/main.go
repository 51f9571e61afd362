// Httpserver shows HTTP handlers under a lock that they never see. Two servers, "web-1" and
// "web-2", take money from the same accounts. Of the requests for one account one runs at a time,
// on whichever server.
//
//	go run ./examples/httpserver                          # Redis runs inside the program
//	go run ./examples/httpserver -redis localhost:6379    # on your own, left as it was found
//
// It sends requests, real ones, and prints them as curl commands with their answers: what a client
// gets that waits in line, is refused, or comes when Redis is gone. It races transfers, without the
// lock and with it. The exit status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write. The rest plays the clients: main.go says what
// happens, sends and prints. The parts that grpcserver shares are in internal/twoservers.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
)

func main() { demo.Main(demo.Setting{Program: "httpserver"}, tell) }

// What answers say: a status and, of a problem, its type, and whether it says when to come back.
const (
	ok          = "200"
	busy        = "409 busy +Retry-After"
	unavailable = "503 unavailable +Retry-After"
	lost        = "503 lost +Retry-After"
)

func tell(ctx context.Context, d *demo.Demo) error {
	b := &twoservers.Bank{
		Demo: d, Ledger: twoservers.NewLedger(), OK: ok, Busy: busy,
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
	transfer := func(path string) twoservers.Transfer {
		return func(server int, from string, seconds float64) twoservers.Call {
			body := fmt.Sprintf(`{"to":"bob","amount":1,"seconds":%v}`, seconds)
			return request{urls[server] + fmt.Sprintf(path, from), body}.call(client)
		}
	}
	b.Transfer = transfer("/accounts/%s/transfer")
	b.Withdraw = func(server int, from string) twoservers.Call {
		return request{urls[server] + "/accounts/" + from + "/withdraw", ""}.call(client)
	}

	d.Print("Two HTTP servers share the accounts of a bank: web-1, %s, and web-2, %s. Redis: %s.",
		urls[0], urls[1], d.Where())
	return b.Tell(ctx, func(ctx context.Context) error {
		b.Unlocked(ctx, transfer("/unlocked/accounts/%s/transfer"))
		return cut(ctx, b)
	})
}

// cut is what becomes of requests when Redis is gone.
func cut(ctx context.Context, b *twoservers.Bank) error {
	b.Act("Redis is stopped, in the middle of a transfer")
	before, _, _ := b.Ledger.Account("ada")
	first := b.Begin(ctx, "[1]", b.Transfer(0, "ada", 2*demo.TTL.Seconds()))
	if err := b.Ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	b.Stop(1)
	down := b.Show(ctx, "[2]", b.Withdraw(1, "bob"))
	stopped := b.Answer("[1]", <-first)
	b.Resume()
	after, _, _ := b.Ledger.Account("ada")
	b.Claim("no answer about locks is never \"busy\", and runs nothing", down.Says == unavailable,
		"%s", down.Brief())
	b.Claim("a lock lost in the middle stops the transfer", stopped.Says == lost, "%s",
		stopped.Brief())
	b.Claim("no money has been moved by it", before == after, "%d before, %d after", before, after)
	return nil
}

// request is a POST to be sent, and to be printed as a command that does the same.
type request struct{ url, body string }

// curl is the command.
func (q request) curl() string {
	if q.body == "" {
		return "curl -iX POST " + q.url
	}
	return fmt.Sprintf("curl -i %s -d '%s'", q.url, q.body)
}

func (q request) call(client *http.Client) twoservers.Call {
	return twoservers.Call{
		Command: q.curl(), Send: func(ctx context.Context) twoservers.Reply {
			r, err := q.send(ctx, client)
			if err != nil {
				return twoservers.Reply{Says: err.Error(), Lines: []string{err.Error()}}
			}
			return r
		},
	}
}

// send sends a request. What is printed of the answer is the status, the headers that matter here,
// and the body.
func (q request) send(ctx context.Context, client *http.Client) (r twoservers.Reply, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, strings.NewReader(q.body))
	if err != nil {
		return r, err
	}
	res, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close() //nolint:errcheck // it has been read to its end, or has failed
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return r, err
	}
	r.Says, r.Lines = strconv.Itoa(res.StatusCode), []string{res.Proto + " " + res.Status}
	var answer struct {
		Type    string
		Balance int
	}
	_ = json.Unmarshal(body, &answer) // it may be text
	r.Balance = answer.Balance
	if _, problem, ok := strings.Cut(answer.Type, "#"); ok {
		r.Says += " " + problem
		var lines bytes.Buffer
		_ = json.Indent(&lines, body, "", "  ")
		body = lines.Bytes()
	}
	if after := res.Header.Get("Retry-After"); after != "" {
		r.Says += " +Retry-After"
		r.Lines = append(r.Lines, "Retry-After: "+after)
	}
	r.Lines = append(r.Lines, strings.Split(strings.TrimSpace(string(body)), "\n")...)
	return r, nil
}
