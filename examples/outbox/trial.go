package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// life is how long a server serves at most.
const life = 120 * time.Millisecond

// trial has customers order from servers, one after the other, all but the last of which are
// killed.
type trial struct {
	*demo.Demo

	dir, name string
	path      string // of what the customers send
	kills     int    // at random
	within    bool   // only within a charge
}

// count is what became of the orders.
type count struct {
	killed        int // servers
	orders, again int // of these so many were sent more than once
	replayed      int // were answered from what was on record
	begun, rows   int // charges
	once, more    int // orders that are charged so often
	equal         int // orders that get the same answer once more
}

// undone is how many charges are not there.
func (c *count) undone() int { return c.begun - c.rows }

func (c *count) print(d *demo.Demo) {
	d.Print("  servers killed: %d; orders: %d; sent again: %d; answered by record: %d",
		c.killed, c.orders, c.again, c.replayed)
	d.Print("  charges begun: %d; undone: %d; orders charged once: %d; more than once: %d",
		c.begun, c.undone(), c.once, c.more)
}

func (t *trial) run(ctx context.Context) (found *count, err error) {
	file := filepath.Join(t.dir, t.name+".db")
	db, err := open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := migrate(ctx, db); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c, ordered, found := &customers{path: t.path}, make(chan struct{}), new(count)
	go func() { defer close(ordered); c.run(ctx) }()
	defer func() { cancel(); <-ordered }()
	if err := t.kill(ctx, file, c, ordered, found); err != nil {
		return nil, err
	}
	if c.fault != nil || ctx.Err() != nil {
		return nil, errors.Join(c.fault, context.Cause(ctx))
	}
	c.count(found)
	found.equal = c.compare(ctx)
	err = found.ask(ctx, db)
	return found, err
}

// kill kills servers for as long as there are kills left, and then has the last one serve until the
// customers have all answers.
func (t *trial) kill(
	ctx context.Context, file string, c *customers, ordered <-chan struct{}, found *count,
) error {
	nodes := t.NewNodes()
	for n := 1; ; n++ {
		name := fmt.Sprint(t.name, "-", n)
		if err := nodes.Start(ctx, name, ttl, file); err != nil {
			return err
		}
		w, err := found.hear(ctx, nodes, serves, nil)
		if err != nil {
			return err
		}
		c.at(w.Note)
		if found.killed == t.kills {
			c.leave()
			_, err := found.hear(ctx, nodes, serves, ordered)
			return err
		}
		if err := t.choose(ctx, nodes, found); err != nil {
			return err
		}
		nodes.Kill(name)
		c.at("")
		if _, err := found.hear(ctx, nodes, ended, nil); err != nil {
			return err
		}
		found.killed++
	}
}

// choose waits for the moment of a kill.
func (t *trial) choose(ctx context.Context, nodes *demo.Nodes, found *count) error {
	if t.within {
		_, err := found.hear(ctx, nodes, charges, nil)
		return err
	}
	over := make(chan struct{})
	luck := rand.Int64N(int64(life)) //nolint:gosec // luck, not a secret
	time.AfterFunc(time.Duration(luck), func() { close(over) })
	_, err := found.hear(ctx, nodes, serves, over)
	return err
}

// hear hears what the servers tell, until one tells what, or until over is closed. It counts the
// charges.
func (c *count) hear(
	ctx context.Context, nodes *demo.Nodes, what string, over <-chan struct{},
) (demo.Word, error) {
	for {
		select {
		case w := <-nodes.Words:
			if w.What == charges {
				c.begun++
			}
			switch w.What {
			case what:
				return w, nil
			case ended:
				return w, fmt.Errorf("%s has ended", w.Node)
			}
		case <-over:
			return demo.Word{}, nil
		case <-ctx.Done():
			return demo.Word{}, context.Cause(ctx)
		}
	}
}

// ask asks the database how often the orders are charged.
func (c *count) ask(ctx context.Context, db *sql.DB) error {
	return db.QueryRowContext(ctx, `
		SELECT coalesce(sum(n), 0), count(*) FILTER (WHERE n = 1), count(*) FILTER (WHERE n > 1)
		FROM (SELECT count(*) AS n FROM charges GROUP BY order_id)`).Scan(&c.rows, &c.once, &c.more)
}
