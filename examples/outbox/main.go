// Outbox runs a server that charges orders sent with an Idempotency-Key, and kills it 30 times
// (kill -9), at random. The row of a charge and the answer to its request are in one transaction of
// SQLite. So each order is charged once, and each request that is sent again gets the same answer.
//
//	go run ./examples/outbox                          # Redis runs inside the program
//	go run ./examples/outbox -redis localhost:6379    # on your own, left as it was found
//
// It is a module of its own, since it needs a driver of SQLite. It prints what became of the
// orders, and before that the same with the answers in Redis, where kills have orders charged
// twice. The exit status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write. server.go runs it as a process, customers.go sends
// the orders, trial.go kills and counts, and main.go tells the story.
package main

import (
	"context"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// ttl is that of the locks: an order waits at most this long for a server that was killed.
const ttl = 300 * time.Millisecond

func main() {
	demo.Child(runServer)
	demo.Main(demo.Setting{Program: "outbox"}, tell)
}

func tell(ctx context.Context, d *demo.Demo) error {
	dir, err := os.MkdirTemp("", "outbox-")
	if err != nil {
		return err
	}
	d.AtEnd(func(context.Context) error { return os.RemoveAll(dir) })
	d.Print("%d clients send orders to be charged, each until it is answered. The server is "+
		"killed again and again. Redis: %s.", clients, d.Where())

	d.Title("The charge in SQLite, the answer in Redis")
	apart := trial{Demo: d, dir: dir, name: "apart", path: "/apart", kills: 10, within: true}
	c, err := apart.run(ctx)
	if err != nil {
		return err
	}
	c.print(d)
	d.Claim("apart: orders are charged more than once", c.more > 0, "%d of %d", c.more, c.orders)

	d.Title("Both in one transaction")
	together := trial{Demo: d, dir: dir, name: "together", kills: 30}
	c, err = together.run(ctx)
	if err != nil {
		return err
	}
	c.print(d)
	d.Claim("together: the server was killed", c.killed == together.kills, "%d times, at random",
		c.killed)
	d.Claim("together: each order is charged once", c.once == c.orders && c.more == 0, "%d of %d",
		c.once, c.orders)
	d.Claim("together: sent once more, each gets the same answer", c.equal == c.orders, "%d of %d",
		c.equal, c.orders)
	d.Claim("together: kills have hit charges, which are undone", c.undone() > 0, "%d of %d",
		c.undone(), c.begun)
	return nil
}
