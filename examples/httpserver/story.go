package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// play is the story with all that it needs.
type play struct {
	*stage.Stage

	ledger *ledger.Ledger
	client *http.Client
	servers
}

// servers are the two, as URLs.
type servers [2]string

// post is a request to take money from an account.
func post(server, path, body string) request {
	return request{method: http.MethodPost, url: server + path, body: body}
}

// tell is the story.
func tell(ctx context.Context, s *stage.Stage) error {
	p := &play{
		Stage: s,
		ledger: ledger.New(map[string]int{
			"ada": stage.Funds, "bob": 0, "open": stage.Funds,
			"safe": stage.Funds, "cash": 0,
		}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: stage.Racers}},
	}
	for i := range p.servers {
		url, err := p.serve(fmt.Sprintf("web-%d", i+1))
		if err != nil {
			return err
		}
		p.servers[i] = url
	}
	s.AtEnd(func(context.Context) error { p.client.CloseIdleConnections(); return nil })

	s.Print("Two HTTP servers share the accounts of a bank: web-1, %s, and web-2, %s.",
		p.servers[0], p.servers[1])
	s.Print("Of the requests for one account one runs at a time, on whichever server. The "+
		"handlers know nothing of that. Redis: %s.", s.Where())
	for _, act := range []func(context.Context) error{
		p.alone, p.together, p.nameless, p.cut,
		p.races, p.stale,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server and returns its URL.
func (p *play) serve(name string) (url string, err error) {
	keeper, err := p.Keeper(name)
	if err != nil {
		return "", err
	}
	listener, err := p.Listener()
	if err != nil {
		return "", err
	}
	// In production give the keeper a MaxHold, too, for handlers that hang: see the docs of
	// httpmw on slow clients.
	server := &http.Server{
		Handler: routes(keeper, p.ledger), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	p.AtEnd(func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return "http://" + listener.Addr().String(), nil
}

// alone is a request that nothing stands in the way of.
func (p *play) alone(ctx context.Context) error {
	p.Title("1. A transfer")
	r := p.show(ctx, post(p.servers[0], "/accounts/ada/transfer", `{"to":"bob","amount":10}`))
	p.Claim("a transfer", r.brief(), r.is(http.StatusOK, "", false))
	return context.Cause(ctx)
}

// together are three requests for one account: one that takes its
// time, one that waits for it, one that does not.
func (p *play) together(ctx context.Context) error {
	p.Title("2. A transfer that takes a second; meanwhile another one, and somebody at a cash " +
		"machine, both on the other server")
	slow, second, cash := post(p.servers[0], "/accounts/ada/transfer",
		`{"to":"bob","amount":10,"seconds":1}`),
		post(p.servers[1], "/accounts/ada/transfer", `{"to":"bob","amount":10}`), post(p.servers[1],
			"/accounts/ada/withdraw", "")
	first := p.start(ctx, "[1]", slow)
	if err := p.ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	waiting := p.start(ctx, "[2]", second)
	p.Command("[3]", cash.curl())
	refused := p.send(ctx, cash)
	p.print("[3]", refused)
	a, b := <-first, <-waiting
	p.print("[1]", a)
	p.print("[2]", b)
	p.Claim("another one on the other server waits its turn", b.brief(),
		b.is(http.StatusOK, "", false) && b.balance() == a.balance()-10)
	p.Claim("one that won't wait is refused at once", refused.brief(),
		refused.is(http.StatusConflict, httpmw.TypeBusy, true))
	p.Claim("the first is not disturbed", a.brief(), a.is(http.StatusOK, "", false))
	return context.Cause(ctx)
}

// start prints a request and sends it, while others are sent.
func (p *play) start(ctx context.Context, mark string, q request) <-chan response {
	p.Command(mark, q.curl())
	came := make(chan response, 1)
	go func() { came <- p.send(ctx, q) }()
	return came
}

// nameless is a request that names nothing that could be locked.
func (p *play) nameless(ctx context.Context) error {
	p.Title("3. An account with a name of 600 bytes, more than a lock's name may have")
	q := post(p.servers[0], fmt.Sprintf("/accounts/%0600d/withdraw", 0), "")
	q.shown = p.servers[0] + "/accounts/$(printf %0600d 0)/withdraw"
	r := p.show(ctx, q)
	p.Claim("a name that can't be locked", r.brief(),
		r.is(http.StatusBadRequest, httpmw.TypeBadRequest, false))
	return context.Cause(ctx)
}

// cut is what becomes of requests when Redis is gone.
func (p *play) cut(ctx context.Context) error {
	p.Title("4. Redis is stopped, in the middle of a transfer")
	before, _ := p.ledger.Balance("ada")
	first := p.start(ctx, "[1]",
		post(p.servers[0], "/accounts/ada/transfer", `{"to":"bob","amount":10,"seconds":5}`))
	if err := p.ledger.Await(ctx, "ada"); err != nil {
		return err
	}
	p.Stop()
	q := post(p.servers[1], "/accounts/bob/withdraw", "")
	p.Command("[2]", q.curl())
	r := p.send(ctx, q)
	p.print("[2]", r)
	lost := <-first
	p.print("[1]", lost)
	p.Resume()
	after, _ := p.ledger.Balance("ada")
	p.Claim("no answer about locks is never \"busy\", and runs nothing", r.brief(),
		r.is(http.StatusServiceUnavailable, httpmw.TypeUnavailable, true))
	p.Claim("a lock lost in the middle stops the transfer", lost.brief(),
		lost.is(http.StatusServiceUnavailable, httpmw.TypeLost, true))
	p.Claim("no money has been moved by it", fmt.Sprintf("%d before, %d after", before, after),
		before == after)
	return context.Cause(ctx)
}
