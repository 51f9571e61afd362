package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

const (
	clients = 4
	// pause is how long a client leaves an order alone that was not answered.
	pause = ttl / 2
)

// customers order, by several clients at once. An order that gets no answer is sent again, with the
// same key, until it does.
type customers struct {
	path   string // of a charge
	client http.Client

	mu      sync.Mutex
	addr    string // of the server; "": none is known to run
	orders  []*order
	again   []*order // that are to be sent again, the first one first
	pending int      // orders without an answer
	leaving bool     // there are no new orders
	fault   error
}

// order is charged by requests with its ID as the key. One client at a time has it.
type order struct {
	id       string
	tries    int
	answer   string
	replayed bool // the answer
	due      time.Time
}

// run orders until leave, and then until all is answered.
func (c *customers) run(ctx context.Context) {
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for {
				o, over := c.next(ctx)
				switch {
				case over:
					return
				case o == nil:
					<-time.After(time.Millisecond)
				default:
					c.settle(o, c.send(ctx, o))
				}
			}
		})
	}
	all.Wait()
	c.client.CloseIdleConnections()
}

// next returns an order to send, nil if there is none now. It is over if there will be none.
func (c *customers) next(ctx context.Context) (o *order, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil, c.fault != nil, c.leaving && c.pending == 0:
		return nil, true
	case c.addr == "":
	case len(c.again) > 0 && time.Now().After(c.again[0].due):
		o, c.again = c.again[0], c.again[1:]
	case !c.leaving:
		o = &order{id: fmt.Sprint(len(c.orders) + 1)}
		c.orders = append(c.orders, o)
		c.pending++
	}
	return o, false
}

// settle notes that an order was answered, or has it sent again.
func (c *customers) settle(o *order, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered {
		c.pending--
		return
	}
	o.due = time.Now().Add(pause)
	c.again = append(c.again, o)
}

// send sends an order, and reports whether it was answered.
func (c *customers) send(ctx context.Context, o *order) bool {
	o.tries++
	status, answer, replayed := c.post(ctx, o.id)
	switch status {
	case http.StatusCreated:
		o.answer, o.replayed = answer, replayed
		return true
	case 0, http.StatusConflict, http.StatusServiceUnavailable: // none, or it is under way
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fault = fmt.Errorf("order %s: status %d: %s", o.id, status, answer)
	}
	return false
}

// post sends a request. The status is 0 if there is no answer.
func (c *customers) post(
	ctx context.Context, id string,
) (status int, answer string, replayed bool) {
	c.mu.Lock()
	url := "http://" + c.addr + c.path + "/orders/" + id + "/charge"
	c.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return 0, "", false
	}
	r.Host = "bank.example" // one for all servers: it is part of what is the same request
	r.Header.Set("Customer", "ann")
	r.Header.Set(idempotent.KeyHeader, "order-"+id)
	res, err := c.client.Do(r)
	if err != nil {
		return 0, "", false
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", false
	}
	return res.StatusCode, string(body), res.Header.Get(idempotent.ReplayedHeader) != ""
}

// at has the clients send their orders to a server from now on, or to none if addr is "".
func (c *customers) at(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addr = addr
}

// leave has the clients make no new orders.
func (c *customers) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = true
}

// compare sends each order once more, and returns how many get the answer that they had.
func (c *customers) compare(ctx context.Context) (equal int) {
	for _, o := range c.orders {
		status, answer, replayed := c.post(ctx, o.id)
		if status == http.StatusCreated && replayed && answer == o.answer {
			equal++
		}
	}
	c.client.CloseIdleConnections()
	return equal
}

// count counts what the clients know.
func (c *customers) count(found *count) {
	found.orders = len(c.orders)
	for _, o := range c.orders {
		if o.tries > 1 {
			found.again++
		}
		if o.replayed {
			found.replayed++
		}
	}
}
