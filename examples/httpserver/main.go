// Httpserver shows HTTP handlers under a lock that they never see. Two servers,
// "web-1" and "web-2", take money from the same accounts. Of the requests for
// one account one runs at a time, on whichever server.
//
//	go run ./examples/httpserver                          # Redis runs inside the program
//	go run ./examples/httpserver -redis localhost:6379    # on your own, left as it was found
//
// It sends requests, real ones, and prints them as curl commands with their
// answers: what a client gets that waits in line, is refused, or comes when
// Redis is gone. It races transfers, without the lock and with it. The exit
// status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write. The rest plays the clients:
// main.go sends, and story.go says what happens.
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
)

func main() { demo.Main(demo.Setting{Program: "httpserver"}, tell) }

// What answers say: a status and, of a problem, its type, and whether it says
// when to come back.
const (
	ok          = "200"
	busy        = "409 busy +Retry-After"
	unavailable = "503 unavailable +Retry-After"
	lost        = "503 lost +Retry-After"
)

func tell(ctx context.Context, d *demo.Demo) error {
	b := &story{Demo: d, ledger: newLedger()}
	var urls [2]string
	for i := range urls {
		keeper, err := d.Keeper(fmt.Sprintf("web-%d", i+1), nil)
		if err != nil {
			return err
		}
		server := newServer(routes(keeper, b.ledger))
		addr, err := d.Serve(server.Serve, server.Shutdown)
		if err != nil {
			return err
		}
		urls[i] = "http://" + addr
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: racers}}
	d.AtEnd(func(context.Context) error { client.CloseIdleConnections(); return nil })
	by := func(path string) transfer {
		return func(server int, from string, seconds float64) request {
			body := fmt.Sprintf(`{"to":"bob","amount":1,"seconds":%v}`, seconds)
			return request{client, urls[server] + fmt.Sprintf(path, from), body}
		}
	}
	b.transfer = by("/accounts/%s/transfer")
	b.withdraw = func(server int, from string) request {
		return request{client, urls[server] + "/accounts/" + from + "/withdraw", ""}
	}

	d.Print("Two HTTP servers share the accounts of a bank: web-1, %s, and web-2, %s. Redis: %s.",
		urls[0], urls[1], d.Where())
	d.Print("Of all that take money from one account one runs at a time, on whichever server. " +
		"The handlers know nothing of that.")
	if err := b.together(ctx); err != nil {
		return err
	}
	b.unlocked(ctx, by("/unlocked/accounts/%s/transfer"))
	if err := b.cut(ctx); err != nil {
		return err
	}
	b.locked(ctx)
	return context.Cause(ctx)
}

// cut is what becomes of requests when Redis is gone.
func (b *story) cut(ctx context.Context) error {
	b.act("Redis is stopped, in the middle of a transfer")
	before, _, _ := b.ledger.Account("ada")
	first := b.begin(ctx, "[1]", b.transfer(0, "ada", 2*demo.TTL.Seconds()))
	if err := b.ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	b.Stop(1)
	down := b.show(ctx, "[2]", b.withdraw(1, "bob"))
	stopped := b.answer("[1]", <-first)
	b.Resume()
	after, _, _ := b.ledger.Account("ada")
	b.Claim("no answer about locks is never \"busy\", and runs nothing", down.says == unavailable,
		"%s", down.brief())
	b.Claim("a lock lost in the middle stops the transfer", stopped.says == lost, "%s",
		stopped.brief())
	b.Claim("no money has been moved by it", before == after, "%d before, %d after", before, after)
	return nil
}

// request is a POST to be sent, and to be printed as a command that does the
// same.
type request struct {
	client    *http.Client
	url, body string
}

// curl is the command.
func (q request) curl() string {
	if q.body == "" {
		return "curl -iX POST " + q.url
	}
	return fmt.Sprintf("curl -i %s -d '%s'", q.url, q.body)
}

func (q request) send(ctx context.Context) reply {
	r, err := q.post(ctx)
	if err != nil {
		return reply{says: err.Error(), lines: []string{err.Error()}}
	}
	return r
}

// post sends a request. What is printed of the answer is the status, the
// headers that matter here, and the body.
func (q request) post(ctx context.Context) (r reply, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, strings.NewReader(q.body))
	if err != nil {
		return r, err
	}
	res, err := q.client.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close() //nolint:errcheck // it has been read to its end, or has failed
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return r, err
	}
	r.says, r.lines = strconv.Itoa(res.StatusCode), []string{res.Proto + " " + res.Status}
	var answer struct {
		Type    string
		Balance int
	}
	_ = json.Unmarshal(body, &answer) // it may be text
	r.balance = answer.Balance
	if _, problem, ok := strings.Cut(answer.Type, "#"); ok {
		r.says += " " + problem
		var lines bytes.Buffer
		_ = json.Indent(&lines, body, "", "  ")
		body = lines.Bytes()
	}
	if after := res.Header.Get("Retry-After"); after != "" {
		r.says += " +Retry-After"
		r.lines = append(r.lines, "Retry-After: "+after)
	}
	r.lines = append(r.lines, strings.Split(strings.TrimSpace(string(body)), "\n")...)
	return r, nil
}
