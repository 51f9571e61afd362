package httpmw

import (
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// clients counts the requests of each client that ask or wait for a lock. A nil
// one has no bound.
type clients struct {
	of      func(*http.Request) string
	waiting *quota.Each
}

func newClients(s *settings) *clients {
	if s.client == nil {
		return nil
	}
	return &clients{s.client, quota.New(s.clientWaiters)}
}

// count counts a request for its client until leave is called, once or more.
// The error is for one too many.
func (c *clients) count(r *http.Request) (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	client := c.of(r)
	switch {
	case client == "":
		return nil, httpguard.ErrNoCaller
	case !c.waiting.Take(client):
		return nil, errTooMany
	}
	return sync.OnceFunc(func() { c.waiting.Give(client) }), nil
}
