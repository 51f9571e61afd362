// Transfer moves money between accounts, each time under the locks of both,
// which the code that moves it never names.
//
//	go run ./examples/transfer                          # Redis runs inside the program
//	go run ./examples/transfer -redis localhost:6379    # on your own, left as it was found
//
// Four nodes make hundreds of transfers between a few accounts, from any to
// any. A program that locks one account and then the other can wait for ever
// for one that does it the other way round; lockmw.All takes both or none. The
// exit status is 1 if a transfer is stuck, or if money is missing in the end.
// The same transfers without the locks show what they are for.
//
// Read app.go first: it is what you would write. main.go plays the crowd, and
// counts.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

const (
	nodes     = 4
	workers   = 5   // of each
	transfers = 200 // of all together
)

func main() { demo.Main(demo.Setting{Program: "transfer"}, tell) }

func tell(ctx context.Context, d *demo.Demo) error {
	d.Print("%d nodes make %d transfers of 1 between %s, from any to any. Redis: %s.", nodes,
		transfers, strings.Join(accounts, ", "), d.Where())
	d.Title("Without locks")
	b := open()
	if _, err := crowd(ctx, func(int) (mover, error) { return b.transfer, nil }); err != nil {
		return err
	}
	undone, _ := b.count()
	d.Print("  %s", b)
	d.Claim("without locks: transfers undo each other's changes", undone > 0, "%d", undone)

	d.Title("Under the locks of both accounts")
	b = open()
	done, err := crowd(ctx, func(node int) (mover, error) {
		k, err := d.Keeper(fmt.Sprint("node-", node+1), nil)
		if err != nil {
			return nil, err
		}
		return b.exclusive(k), nil
	})
	undone, sum := b.count()
	d.Print("  %s; each pair was asked for as (a, b) by one and as (b, a) by another", b)
	d.Claim("with locks: none is stuck, all are carried out", done == transfers, "%d of %d", done,
		transfers)
	d.Claim("with locks: changes undone", undone == 0, "%d", undone)
	d.Claim("with locks: the sum is what it was", sum == opening*int64(len(accounts)), "%d", sum)
	return err
}

type mover = func(context.Context, order) (struct{}, error)

// crowd makes the transfers, in random order, by all nodes at once. It returns
// how many were carried out, and why others were not.
func crowd(ctx context.Context, node func(int) (mover, error)) (int, error) {
	var left, done atomic.Int64
	left.Store(transfers)
	var faults [nodes * workers]error
	var all sync.WaitGroup
	for n := range nodes {
		move, err := node(n)
		if err != nil {
			return 0, err
		}
		for w := range workers {
			fault := &faults[n*workers+w]
			all.Go(func() {
				for *fault == nil && left.Add(-1) >= 0 {
					pair := rand.Perm(len(accounts)) //nolint:gosec // a crowd, not a secret
					_, *fault = move(ctx, order{accounts[pair[0]], accounts[pair[1]]})
					if *fault == nil {
						done.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	return int(done.Load()), errors.Join(faults[:]...)
}

const opening = 100 // on each account

var accounts = []string{"ann", "bob", "eve"}

// bank stands for a database that the nodes share.
type bank map[string]*account

type account struct {
	balance atomic.Int64
	undone  atomic.Int64 // changes that another transfer wrote over
}

func open() bank {
	b := make(bank)
	for _, name := range accounts {
		b[name] = new(account)
		b[name].balance.Store(opening)
	}
	return b
}

// write sets the balance, and counts what it undoes: a change since it was
// seen.
func (a *account) write(seen, balance int64) {
	if a.balance.Swap(balance) != seen {
		a.undone.Add(1)
	}
}

// count returns how many changes were undone, and what is on all accounts
// together.
func (b bank) count() (undone, sum int64) {
	for _, a := range b {
		undone += a.undone.Load()
		sum += a.balance.Load()
	}
	return undone, sum
}

func (b bank) String() string {
	var all []string
	for _, name := range accounts {
		all = append(all, fmt.Sprint(name, " ", b[name].balance.Load()))
	}
	_, sum := b.count()
	return fmt.Sprintf("%s; %d in all", strings.Join(all, ", "), sum)
}
