package httpmw

import (
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// MaxWaiters bounds how many requests wait for one lock in this process, behind the
// one that has it or asks for it. One more is answered with 503 at once. It panics
// if n is below 1; [Refuse] lets no request wait. Default 100.
func MaxWaiters(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxWaiters(%d) can't be meant: give at least 1, or "+
			"take Refuse so that no request waits", n))
	}
	return func(s *settings) { s.waiters = n }
}

// MaxWaitersPerClient bounds how many requests of one client ask or wait for locks of this
// handler at once, in this process, whatever their names: n. One more is answered with 429
// and Retry-After at once. So no client can fill the places of [MaxWaiters] on
// its own. A request counts from when the lock is asked for, its body having been read, until
// the lock is had or refused, even if it is free. So allow as many as a client sends at once.
//
// The function client returns who sends a request: the authenticated user, or the tenant. A
// client's address serves only where no proxy stands before the server. An error, and an empty
// client, are answered with 400. It may be called concurrently.
//
// Default: no limit but MaxWaiters. It panics if n is below 1 or client is nil.
func MaxWaitersPerClient(n int, client KeyFunc) Option {
	if n < 1 || client == nil {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxWaitersPerClient(%d) can't be meant: give at "+
			"least 1, and a function that says who sends a request", n))
	}
	return func(s *settings) { s.clientWaiters, s.client = n, client }
}

// clients counts the requests of each client that ask or wait for a lock. A nil one has no bound.
type clients struct {
	of      KeyFunc
	waiting *quota.Each
}

func newClients(s *settings) *clients {
	if s.client == nil {
		return nil
	}
	return &clients{s.client, quota.New(s.clientWaiters)}
}

// count counts a request for its client until leave is called. The error is for one too many.
func (c *clients) count(r *http.Request) (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	client, err := c.of(r)
	switch {
	case err != nil:
		return nil, httpguard.KeyFault(r, err)
	case client == "":
		return nil, httpguard.ErrNoCaller
	case !c.waiting.Take(client):
		return nil, errTooMany
	}
	return func() { c.waiting.Give(client) }, nil
}
